package org.apache.kafka.controller;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import kafka.cluster.Partition;
import kafka.server.DelayedFetch;
import kafka.server.DelayedProduce;
import kafka.server.FailedPartitions;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory;
import kafka.server.ReplicaFetcherManager;
import kafka.server.ReplicaFetcherThread;
import kafka.server.ReplicaManager;
import kafka.server.ReplicationQuotaManager;
import kafka.server.metadata.KRaftMetadataCache;
import kafka.server.share.DelayedShareFetch;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.server.DelayedActionQueue;
import org.apache.kafka.server.LeaderEndPoint;
import org.apache.kafka.server.common.DirectoryEventHandler;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.network.BrokerEndPoint;
import org.apache.kafka.server.purgatory.DelayedDeleteRecords;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.purgatory.DelayedRemoteFetch;
import org.apache.kafka.server.purgatory.DelayedRemoteListOffsets;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchParams;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
//# if kafka.log.LogManager.getLog
import kafka.log.LogManager;
//# else
import org.apache.kafka.storage.internals.log.LogManager;
//# end
//# if kafka.log.UnifiedLog
import kafka.log.UnifiedLog;
//# else
import org.apache.kafka.storage.internals.log.UnifiedLog;
//# end
//# if org.apache.kafka.server.ResultWithPartitions
import org.apache.kafka.server.ResultWithPartitions;
//# else
import kafka.server.AbstractFetcherThread.ResultWithPartitions;
//# end
import org.apache.kafka.storage.internals.log.VerificationGuard;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * All that differs between Kafka's versions. The other classes of the bridge are the same for each version.
 *
 * <p>{@code sources.py} adapts the bridge's sources to the jars: an import names a class where it is in some version; if
 * it is not there, the only class with the same simple name is imported. A line {@code //# if} names a class, or a class
 * and its method, also with the types of neighbouring parameters. If the jars lack it, the lines before
 * {@code //# else} are removed; else the lines after it.
 */
final class Versions {
    private Versions() {
    }

    // --- collections of Java and Scala --------------------------------------------------------------------------

    static <T> Optional<T> optional(Optional<T> value) {
        return value;
    }

    @SuppressWarnings("unchecked")
    static <T> Optional<T> optional(Option<?> value) {
        return value.isDefined() ? Optional.of((T) value.get()) : Optional.empty();
    }

    static Optional<Long> optional(OptionalLong value) {
        return value.isPresent() ? Optional.of(value.getAsLong()) : Optional.empty();
    }

    static <T> Iterable<T> all(Iterable<T> values) {
        return values;
    }

    @SuppressWarnings("unchecked")
    static <T> Iterable<T> all(scala.collection.Iterable<?> values) {
        return (Iterable<T>) CollectionConverters.asJava(values);
    }

    static scala.collection.Set<String> scala(Set<String> values) {
        return CollectionConverters.asScala(values);
    }

    static scala.collection.Set<String> scala(scala.collection.Set<String> values) {
        return values;
    }

    /** A map as the type that a method of Kafka returns. */
    static Object as(Class<?> type, Map<?, ?> map) {
        return type.isInstance(map) ? map : CollectionConverters.asScala(map);
    }

    @SuppressWarnings("unchecked")
    static <K, V> Map<K, V> map(Object map) {
        return (Map<K, V>) (map instanceof Map ? map : CollectionConverters.asJava((scala.collection.Map<?, ?>) map));
    }

    // --- the controller -----------------------------------------------------------------------------------------

    static QuorumControllerMetrics metrics() {
        //# if org.apache.kafka.controller.metrics.QuorumControllerMetrics.<init>(Optional,Time,int)
        return new QuorumControllerMetrics(Optional.empty(), new BridgedClock(), 0);
        //# else
        return new QuorumControllerMetrics(Optional.empty(), new BridgedClock());
        //# end
    }

    static ClusterControlManager.Builder with(QuorumControllerMetrics metrics, ClusterControlManager.Builder builder) {
        //# if org.apache.kafka.controller.ClusterControlManager$Builder.setMetrics
        builder.setMetrics(metrics);
        //# end
        return builder;
    }

    static ControllerResult<Map<ConfigResource, ApiError>> alterConfigs(
            ConfigurationControlManager configs, Map<ConfigResource, Map<String, Map.Entry<OpType, String>>> changes) {
        //# if org.apache.kafka.controller.ConfigurationControlManager.incrementalAlterConfigs(Map,boolean,boolean)
        return configs.incrementalAlterConfigs(changes, false, false);
        //# else
        return configs.incrementalAlterConfigs(changes, false);
        //# end
    }

    static ControllerResult<ApiError> updateFeatures(
            ConfigurationControlManager configs, Map<String, Short> levels, Map<String, UpgradeType> types) {
        //# if org.apache.kafka.controller.ConfigurationControlManager.updateFeatures(Map,Map,boolean,int)
        return configs.updateFeatures(levels, types, false, 0);
        //# else
        return configs.updateFeatures(levels, types, false);
        //# end
    }

    static ControllerResult<CreateTopicsResponseData> createTopics(ReplicationControlManager replication,
            ControllerRequestContext context, CreateTopicsRequestData request, String name) {
        //# if org.apache.kafka.controller.ReplicationControlManager.createTopics(Set,boolean)
        return replication.createTopics(context, request, Set.of(name), false);
        //# else
        return replication.createTopics(context, request, Set.of(name));
        //# end
    }

    /** Fields of operations that the requests of this Kafka lack. */
    static List<String> lacking() {
        //# if org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.setAllowReplicationFactorChange
        return List.of();
        //# else
        return List.of("allowReplicationFactorChange");
        //# end
    }

    static void allowReplicationFactorChange(AlterPartitionReassignmentsRequestData request, boolean allow) {
        //# if org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.setAllowReplicationFactorChange
        request.setAllowReplicationFactorChange(allow);
        //# end
    }

    // --- logs ---------------------------------------------------------------------------------------------------

    /** Kafka's LogManager. */
    static final class Logs {
        final LogManager manager;

        Logs(Path directory, KRaftMetadataCache cache, LogConfig defaults, LogDirFailureChannel failures, Time time)
                throws Exception {
            manager = new LogManager(
                //# if kafka.log.LogManager.getLog
                CollectionConverters.asScala(List.of(directory.toFile())).toSeq(),
                CollectionConverters.asScala(List.<java.io.File>of()).toSeq(),
                //# else
                List.of(directory.toFile()), List.of(),
                //# end
                cache, defaults, new CleanerConfig(false), 1, Long.MAX_VALUE, Long.MAX_VALUE, Long.MAX_VALUE,
                Long.MAX_VALUE, 60_000, new ProducerStateManagerConfig(60_000, false), 60_000, Idle.IDLE,
                BridgedBroker.STATS, failures, time,
                //# if kafka.log.LogManager.<init>(Time,boolean,boolean)
                false,
                //# end
                false, Long.MAX_VALUE
                //# if kafka.log.LogManager.<init>(Function5)
                , null
                //# end
                //# if org.apache.kafka.storage.internals.log.LogManager$LogCleanerBuilder
                , null
                //# end
            );
        }

        void startup(KRaftMetadataCache cache) throws Exception {
            //# if kafka.log.LogManager.getLog
            manager.startup(scala(cache.getAllTopics()), log -> false);
            //# else
            manager.startup(cache.getAllTopics(), log -> false);
            //# end
        }

        /** The log of the bridge's partition; null if there is none. */
        UnifiedLog log() {
            return Versions.<UnifiedLog>optional(manager.getLog(BridgedBroker.PARTITION, false)).orElse(null);
        }

        void closeFiles() {
            for (UnifiedLog log : Versions.<UnifiedLog>all(manager.allLogs())) {
                //# if org.apache.kafka.storage.internals.log.UnifiedLog.closeQuietly
                log.closeQuietly();
                //# else
                log.closeHandlers();
                //# end
            }
        }
    }

    static FetchParams fetchParams(int follower, long brokerEpoch) {
        return new FetchParams(
            //# if org.apache.kafka.server.storage.log.FetchParams.<init>(short)
            org.apache.kafka.common.protocol.ApiKeys.FETCH.latestVersion(),
            //# end
            follower, brokerEpoch, 0, 1, 1, FetchIsolation.LOG_END, Optional.empty());
    }

    static int epoch(OffsetAndEpoch end) {
        //# if org.apache.kafka.server.common.OffsetAndEpoch.epoch
        return end.epoch();
        //# else
        return end.leaderEpoch();
        //# end
    }

    static void append(Partition partition, MemoryRecords records, short acks) {
        partition.appendRecordsToLeader(records, AppendOrigin.CLIENT, acks, RequestLocal.noCaching(),
            VerificationGuard.SENTINEL
            //# if kafka.cluster.Partition.appendRecordsToLeader(short)
            , (short) 0
            //# end
        );
    }

    // --- fetchers -----------------------------------------------------------------------------------------------

    /** The answer of a {@link LeaderEndPoint} that sends no fetch. */
    static Object noFetch() {
        //# if org.apache.kafka.server.ResultWithPartitions
        return new ResultWithPartitions<>(Optional.empty(), Set.of());
        //# else
        return new ResultWithPartitions<>(Option.empty(), CollectionConverters.asScala(Set.of()));
        //# end
    }

    abstract static class Fetcher extends ReplicaFetcherThread {
        Fetcher(LeaderEndPoint end, KafkaConfig config, FailedPartitions failed, ReplicaManager manager) {
            super("fetcher", end, config, failed, manager, QuotaFactory.UNBOUNDED_QUOTA, ""
                //# if kafka.server.ReplicaFetcherThread.<init>(Function0)
                , () -> manager.metadataCache().metadataVersion()
                //# end
            );
        }

        /** Handle the answer to a fetch, which the {@link LeaderEndPoint} returns. */
        void process(Map<TopicPartition, FetchRequest.PartitionData> sent) throws ReflectiveOperationException {
            //# if kafka.server.AbstractFetcherThread.processFetchRequest
            processFetchRequest(sent, null);
            //# else
            var method = kafka.server.AbstractFetcherThread.class.getDeclaredMethod(
                "processFetchRequest", Map.class, FetchRequest.Builder.class);
            method.setAccessible(true);
            method.invoke(this, sent, null);
            //# end
        }
    }

    /** Kafka's ReplicaManager with fetchers of the bridge. */
    static final class Manager extends ReplicaManager {
        private static final QuotaFactory.QuotaManagers QUOTAS =
            new QuotaFactory.QuotaManagers(null, null, null, null, null, null, null, Optional.empty());
        private static final Option<DelayedOperationPurgatory<DelayedProduce>> PRODUCE = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedFetch>> FETCH = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedDeleteRecords>> DELETE = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedRemoteFetch>> REMOTE_FETCH = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedRemoteListOffsets>> REMOTE_LIST = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedShareFetch>> SHARE = Idle.purgatory();

        Manager(KafkaConfig config, Metrics metrics, Time time, Logs logs, KRaftMetadataCache cache,
                LogDirFailureChannel failures, BridgedBroker owner) {
            super(config, metrics, time, Idle.IDLE, logs.manager, Option.empty(), QUOTAS, cache, failures,
                owner.alterPartitionManager, BridgedBroker.STATS,
                //# if kafka.server.ReplicaManager.<init>(AtomicBoolean)
                new java.util.concurrent.atomic.AtomicBoolean(),
                //# end
                PRODUCE, FETCH, DELETE, REMOTE_FETCH, REMOTE_LIST, SHARE,
                //# if kafka.server.ReplicaManager.<init>(AtomicBoolean)
                Option.empty(),
                //# end
                () -> owner.epoch, Option.empty(), DirectoryEventHandler.NOOP, new DelayedActionQueue());
        }

        @Override
        public ReplicaFetcherManager createReplicaFetcherManager(Metrics metrics, Time time,
                //# if kafka.server.ReplicaManager.createReplicaFetcherManager(Option)
                Option<String> prefix,
                //# end
                ReplicationQuotaManager quota) {
            BridgedBroker owner = (BridgedBroker) java.lang.reflect.Proxy.getInvocationHandler(alterPartitionManager());
            ReplicaManager manager = this;
            return new ReplicaFetcherManager(config(), this, metrics, time,
                    //# if kafka.server.ReplicaManager.createReplicaFetcherManager(Option)
                    prefix,
                    //# end
                    quota, () -> manager.metadataCache().metadataVersion(), () -> owner.epoch) {
                @Override
                public ReplicaFetcherThread createFetcherThread(int fetcher, BrokerEndPoint source) {
                    return BridgedFetcher.of(source, failedPartitions(), manager, owner);
                }
            };
        }
    }
}
