package org.apache.kafka.controller;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.AlterPartitionManager;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.metadata.KRaftMetadataCache;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.OperationNotAttemptedException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.FileLogInputStream;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.Option;

/**
 * A broker with a directory of its own. Kafka's LogManager, ReplicaManager with Partition and fetchers, and metadata
 * cache are unmodified. There are no threads: the caller does what a thread would do.
 */
final class BridgedBroker implements InvocationHandler {
    static final TopicPartition PARTITION = new TopicPartition(BridgedController.TOPIC, 0);
    static final long LAG_MS = 30_000;

    private static final Metrics METRICS = new Metrics();
    static final BrokerTopicStats STATS = new BrokerTopicStats();
    private static final Map<Integer, KafkaConfig> CONFIGS = new HashMap<>();
    private static final LogConfig LOG_CONFIG = new LogConfig(config(0).extractLogConfigMap());

    final int id;
    private final BridgedCluster all;
    private final Path home;
    private int directories = 0;
    private Path directory;

    boolean up = false;
    long epoch = -1;
    KRaftMetadataCache cache;
    Versions.Logs logs;
    ReplicaManager replicas;
    MetadataImage image;
    /** The number of records of the metadata log that the broker has replayed. */
    int replayed = 0;

    /** What happens to an ISR change that the partition submits: it is sent, kept unsent, or declined. */
    enum Proposals { SENT, KEPT, DECLINED }

    /** Kafka's interface, whose calls this broker handles. */
    final AlterPartitionManager alterPartitionManager = (AlterPartitionManager) Proxy.newProxyInstance(
        BridgedBroker.class.getClassLoader(), new Class<?>[] {AlterPartitionManager.class}, this);

    Proposals proposals = Proposals.DECLINED;
    LeaderAndIsr proposed;
    CompletableFuture<LeaderAndIsr> decision;

    /** Another broker. */
    BridgedBroker peer(int other) {
        return all.brokers[other];
    }

    BridgedBroker(int id, BridgedCluster all, Path home) {
        this.id = id;
        this.all = all;
        this.home = home;
    }

    private static KafkaConfig config(int id) {
        return CONFIGS.computeIfAbsent(id, number -> {
            Properties properties = new Properties();
            properties.setProperty("process.roles", "broker");
            properties.setProperty("node.id", Integer.toString(number));
            properties.setProperty("controller.quorum.voters", BridgedController.CONTROLLER + "@localhost:9093");
            properties.setProperty("controller.listener.names", "CONTROLLER");
            properties.setProperty("listeners", "PLAINTEXT://localhost:" + (9092 + number));
            properties.setProperty("replica.fetch.backoff.ms", "0");
            properties.setProperty("replica.lag.time.max.ms", Long.toString(LAG_MS));
            properties.setProperty("log.index.size.max.bytes", "1024");
            return KafkaConfig.fromProps(properties);
        });
    }

    // --- the process -------------------------------------------------------------------------------------------

    /** Load the logs. Returns the broker epoch of the CleanShutdownFile, as LogManager reads it. */
    OptionalLong load() throws Exception {
        if (directory == null) {
            emptyDisk();
        }
        cache = new KRaftMetadataCache(id, () -> KRaftVersion.KRAFT_VERSION_0);
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        logs = new Versions.Logs(directory, cache, LOG_CONFIG, failures, all.time);
        OptionalLong found = logs.manager.readBrokerEpochFromCleanShutdownFiles();
        replicas = new Versions.Manager(config(id), METRICS, all.time, logs, cache, failures, this);
        return found;
    }

    /** The broker epoch of the CleanShutdownFile on the disk; −1 if there is none. */
    long stoppedEpoch() {
        return directory == null ? -1 : new CleanShutdownFileHandler(directory.toString()).read().orElse(-1);
    }

    /** Start the managers, as BrokerMetadataPublisher does at its first image. */
    void begin(long epoch) throws Exception {
        this.epoch = epoch;
        image = MetadataImage.EMPTY;
        replayed = 0;
        up = true;
        replay(all.metadata.size());
    }

    /** Replay the metadata log up to this record, as BrokerMetadataPublisher does. */
    void replay(int end) throws Exception {
        boolean first = replayed == 0;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        for (ApiMessage message : all.metadata.subList(replayed, end)) {
            delta.replay(message);
        }
        replayed = end;
        image = delta.apply(new MetadataProvenance(end - 1, 1, 0, true));
        cache.setImage(image);
        if (first) {
            logs.startup(cache);
        }
        if (delta.topicsDelta() != null) {
            replicas.applyDelta(delta.topicsDelta(), image);
        }
        if (delta.configsDelta() != null && !first) {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, BridgedController.TOPIC);
            logs.manager.updateTopicConfig(BridgedController.TOPIC, cache.config(topic), false, false);
        }
    }

    /** Stop cleanly, as BrokerServer does: write the HWM checkpoint, flush, write the CleanShutdownFile. */
    void stop() throws Exception {
        replicas.shutdown(true);
        logs.manager.shutdown(epoch);
        forget();
    }

    /** Stop before the registration: the logs are loaded, and the broker has no epoch. */
    void startAndStop() throws Exception {
        load();
        cache.setImage(MetadataImage.EMPTY);
        logs.startup(cache);
        epoch = -1;
        stop();
    }

    /** Kill the process. The next incarnation gets a copy of the directory, with this number of records. */
    void crash(long keep) throws Exception {
        replicas.checkpointHighWatermarks();
        var log = logs.log();
        Path before = directory;
        if (log != null && keep < log.logEndOffset()) {
            long size = position(log.activeSegment().log(), keep);
            next();
            copy(before, directory);
            File segment = directory.resolve(PARTITION.toString()).resolve("00000000000000000000.log").toFile();
            try (RandomAccessFile file = new RandomAccessFile(segment, "rw")) {
                file.setLength(size);
            }
        } else {
            next();
            copy(before, directory);
        }
        kill();
    }

    /** End the process without a shutdown. */
    void kill() throws Exception {
        logs.closeFiles();
        forget();
    }

    private static long position(FileRecords records, long offset) throws IOException {
        for (FileLogInputStream.FileChannelRecordBatch batch : records.batches()) {
            if (batch.baseOffset() >= offset) {
                return batch.position();
            }
        }
        return records.sizeInBytes();
    }

    private void forget() {
        up = false;
        logs = null;
        replicas = null;
        cache = null;
        image = null;
        proposed = null;
        decision = null;
    }

    // --- the disk ----------------------------------------------------------------------------------------------

    void emptyDisk() throws IOException {
        next();
        Uuid identity = BridgedController.directory(id, 0);
        Files.writeString(directory.resolve("meta.properties"), "version=1\ncluster.id=" + BridgedController.CLUSTER_ID
            + "\nnode.id=" + id + "\ndirectory.id=" + identity + "\n");
    }

    private void next() throws IOException {
        directory = Files.createDirectory(home.resolve(id + "-" + directories++));
    }

    static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> paths = Files.walk(from)) {
            for (Path path : (Iterable<Path>) paths::iterator) {
                Path target = to.resolve(from.relativize(path).toString());
                if (Files.isDirectory(path)) {
                    Files.createDirectories(target);
                } else if (!path.endsWith(".lock")) {
                    Files.copy(path, target, StandardCopyOption.REPLACE_EXISTING);
                }
            }
        }
    }

    void flush() throws Exception {
        logs.log().flush(false);
        logs.manager.checkpointLogRecoveryOffsets();
    }

    // --- the partition -----------------------------------------------------------------------------------------

    /** The broker's partition; null if it has none. */
    Partition partition() {
        Option<Partition> found = replicas.onlinePartition(PARTITION);
        return found.isDefined() ? found.get() : null;
    }

    /** A record of the log: its value and its leader epoch. */
    record Stored(int value, int epoch) { }

    /** The records of the log. */
    List<Stored> content() {
        List<Stored> found = new ArrayList<>();
        var log = logs.log();
        if (log != null) {
            FileRecords records = log.activeSegment().log();
            for (RecordBatch batch : records.batches()) {
                batch.forEach(record -> found.add(new Stored(
                    record.value().get(record.value().position()), batch.partitionLeaderEpoch())));
            }
        }
        return found;
    }

    // --- AlterPartition ----------------------------------------------------------------------------------------

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws ReflectiveOperationException {
        return method.getName().equals("submit") ? submit((LeaderAndIsr) arguments[1])
            : method.getDeclaringClass() == Object.class ? method.invoke(this, arguments) : null;
    }

    private CompletableFuture<LeaderAndIsr> submit(LeaderAndIsr wanted) {
        if (proposals == Proposals.DECLINED) {
            return CompletableFuture.failedFuture(new OperationNotAttemptedException("not now"));
        }
        proposed = wanted;
        decision = new CompletableFuture<>();
        if (proposals == Proposals.SENT) {
            all.sendProposal(id);
        }
        return decision;
    }
}
