package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Map.Entry;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.EligibleLeaderReplicasVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's control managers, unmodified. Like QuorumController, this class replays the records that the managers write and
 * advances the offset. There is no event queue and no Raft.
 */
final class BridgedController {
    static final String TOPIC = "t";
    static final String MIN_ISR = "min.insync.replicas";
    static final String UNCLEAN = "unclean.leader.election.enable";
    static final String ELR = EligibleLeaderReplicasVersion.FEATURE_NAME;
    static final String CLUSTER_ID = "highwater";
    static final int CONTROLLER = 3000;
    static final long LONG_AGO = Long.MIN_VALUE / 4;
    static final long SESSION_MS = 9_000;

    private static final LogContext LOG = new LogContext();
    private static final KafkaConfigSchema SCHEMA = KafkaRaftServer.configSchema();
    private static final ConfigurationValidator VALIDATOR =
        new ControllerConfigurationValidator(KafkaConfig.fromProps(staticProperties()));

    final BridgedClock time = new BridgedClock();
    private final QuorumControllerMetrics metrics;
    final SnapshotRegistry registry = new SnapshotRegistry(LOG);
    final FeatureControlManager features;
    final ClusterControlManager cluster;
    final ConfigurationControlManager configs;
    final ReplicationControlManager replication;
    private final int brokers;

    long nextOffset;
    String topic = TOPIC;
    /** The number of the model's first partition in its topic; 1 after {@link #putFirst}. */
    int firstPartition = 0;
    private int partitions = 1;
    /** The broker epochs of each broker's registrations, oldest first. */
    final Map<Integer, List<Long>> epochs = new HashMap<>();
    private long ids = 1000;
    /** Called for every record that is replayed. */
    Consumer<ApiMessage> listener = message -> { };

    private static java.util.Properties staticProperties() {
        java.util.Properties properties = new java.util.Properties();
        properties.setProperty("process.roles", "controller");
        properties.setProperty("node.id", Integer.toString(CONTROLLER));
        properties.setProperty("controller.quorum.voters", CONTROLLER + "@localhost:9093");
        properties.setProperty("controller.listener.names", "CONTROLLER");
        properties.setProperty("listeners", "CONTROLLER://localhost:9093");
        return properties;
    }

    BridgedController(int brokers, int staticMinIsr, QuorumControllerMetrics metrics) {
        this.brokers = brokers;
        this.metrics = metrics;
        features = new FeatureControlManager.Builder().
            setLogContext(LOG).
            setSnapshotRegistry(registry).
            setQuorumFeatures(new QuorumFeatures(
                CONTROLLER, QuorumFeatures.defaultSupportedFeatureMap(false), List.of(CONTROLLER))).
            setClusterFeatureSupportDescriber(new Supported()).
            build();
        cluster = Versions.with(metrics, new ClusterControlManager.Builder().
            setLogContext(LOG).
            setClusterId(CLUSTER_ID).
            setTime(time).
            setSnapshotRegistry(registry).
            setSessionTimeoutNs(SESSION_MS * 1_000_000).
            setReplicaPlacer(new StripedReplicaPlacer(new java.util.Random(0))).
            setFeatureControlManager(features).
            setBrokerShutdownHandler((id, clean, records) -> this.handleShutdown(id, clean, records))).
            build();
        configs = new ConfigurationControlManager.Builder().
            setLogContext(LOG).
            setSnapshotRegistry(registry).
            setKafkaConfigSchema(SCHEMA).
            setExistenceChecker(this::checkExists).
            setValidator(VALIDATOR).
            setStaticConfig(Map.of(MIN_ISR, Integer.toString(staticMinIsr))).
            setNodeId(CONTROLLER).
            setFeatureControl(features).
            build();
        replication = new ReplicationControlManager.Builder().
            setLogContext(LOG).
            setSnapshotRegistry(registry).
            setMaxElectionsPerImbalance(ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE).
            setConfigurationControl(configs).
            setClusterControl(cluster).
            setFeatureControl(features).
            build();
    }

    private void handleShutdown(int id, boolean clean, List<ApiMessageAndVersion> records) {
        replication.handleBrokerShutdown(id, clean, records);
    }

    /** Check that a configured topic or broker exists, as QuorumController does. */
    private void checkExists(ConfigResource resource) {
        if (resource.type() == ConfigResource.Type.TOPIC) {
            if (replication.getTopicId(resource.name()) == null) {
                throw new UnknownTopicOrPartitionException("The topic '" + resource.name() + "' does not exist.");
            }
        } else if (resource.type() == ConfigResource.Type.BROKER && !resource.name().isEmpty()) {
            int node = Integer.parseInt(resource.name());
            if (!cluster.brokerRegistrations().containsKey(node) && !features.isControllerId(node)) {
                throw new BrokerIdNotRegisteredException("No node with id " + node + " found.");
            }
        }
    }

    /** The features that nodes support. */
    private final class Supported implements ClusterFeatureSupportDescriber {
        @Override
        public Iterator<Entry<Integer, Map<String, VersionRange>>> brokerSupported() {
            return cluster.brokerSupportedFeatures();
        }

        @Override
        public Iterator<Entry<Integer, Map<String, VersionRange>>> controllerSupported() {
            return cluster.controllerSupportedFeatures();
        }
    }

    // --- the beginning of a scenario ---------------------------------------------------------------------------

    /** Replay records of unfenced brokers and of a topic with these partitions, without a decision of Kafka. */
    void begin(JsonNode setup) {
        features(setup.get("elr").intValue());
        if (setup.get("elr").intValue() > 0) {
            config(ConfigResource.Type.BROKER, "", MIN_ISR, setup.get("minIsr").asText());
        }
        for (int broker = 0; broker < brokers; broker++) {
            replay(new RegisterBrokerRecord().
                setBrokerId(broker).
                setBrokerEpoch(nextOffset).
                setIncarnationId(nextId()).
                setFeatures(BridgeOperations.recordedFeatures(true)).
                setEndPoints(BridgeOperations.endPoints(broker)).
                setLogDirs(List.of(directory(broker, 0))).
                setFenced(false));
        }
        partitions = setup.get("partitions").size();
        topic(TOPIC, setup.get("minIsr").asText(), setup.get("unclean").asText());
        int number = 0;
        for (JsonNode replicas : setup.get("partitions")) {
            List<Integer> list = new ArrayList<>();
            List<Uuid> directories = new ArrayList<>();
            for (JsonNode replica : replicas) {
                list.add(replica.intValue());
                directories.add(directory(replica.intValue(), 0));
            }
            List<Integer> isr = new ArrayList<>();
            setup.path("isr").forEach(member -> isr.add(member.intValue()));
            replay(new PartitionRecord().
                setTopicId(replication.getTopicId(TOPIC)).
                setPartitionId(number++).
                setReplicas(list).
                setIsr(isr.isEmpty() ? list : isr).
                setDirectories(directories).
                setLeader(list.get(0)).
                setLeaderEpoch(0).
                setPartitionEpoch(0));
        }
    }

    private void features(int elr) {
        replay(new FeatureLevelRecord().
            setName(MetadataVersion.FEATURE_NAME).
            setFeatureLevel(MetadataVersion.latestProduction().featureLevel()));
        replay(new FeatureLevelRecord().setName(ELR).setFeatureLevel((short) elr));
        cluster.activate();
    }

    private void topic(String name, String minIsr, String unclean) {
        replay(new TopicRecord().setName(name).setTopicId(nextId()));
        config(ConfigResource.Type.TOPIC, name, MIN_ISR, minIsr);
        config(ConfigResource.Type.TOPIC, name, UNCLEAN, unclean);
    }

    private void config(ConfigResource.Type type, String name, String key, String value) {
        replay(new ConfigRecord().
            setResourceType(type.id()).setResourceName(name).setName(key).setValue(value));
    }

    /** Put another partition first in the topic, with this number of replicas, on brokers of its own. */
    void putFirst(int count) {
        List<Integer> others = new ArrayList<>();
        List<Uuid> directories = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            others.add(100 + i);
            directories.add(directory(100 + i, 0));
        }
        if (firstPartition == 0) {
            moveBehind();
        }
        replay(new PartitionRecord().
            setTopicId(replication.getTopicId(topic)).
            setPartitionId(0).
            setReplicas(others).
            setIsr(others).
            setDirectories(directories).
            setLeader(100).
            setLeaderEpoch(0).
            setPartitionEpoch(0));
    }

    /** Move the model's partition to number 1 of a new topic, with its stale entries in the index of ELR members. */
    private void moveBehind() {
        Uuid before = replication.getTopicId(topic);
        PartitionRegistration partition = replication.getPartition(before, 0);
        int[][] stale = new int[brokers][];
        for (int broker = 0; broker < brokers; broker++) {
            stale[broker] = new int[entries(broker, 0) - (contains(partition.elr, broker) ? 1 : 0)];
        }
        String moved = topic + "2";
        topic(moved, configured(MIN_ISR), configured(UNCLEAN));
        remove(before);
        Uuid id = replication.getTopicId(moved);
        PartitionRecord record = new PartitionRecord().
            setTopicId(id).
            setPartitionId(1).
            setReplicas(boxed(partition.replicas)).
            setIsr(boxed(partition.isr)).
            setRemovingReplicas(boxed(partition.removingReplicas)).
            setAddingReplicas(boxed(partition.addingReplicas)).
            setEligibleLeaderReplicas(boxed(partition.elr)).
            setLastKnownElr(boxed(partition.lastKnownElr)).
            setDirectories(List.of(partition.directories)).
            setLeader(partition.leader).
            setLeaderRecoveryState(partition.leaderRecoveryState.value()).
            setLeaderEpoch(partition.leaderEpoch).
            setPartitionEpoch(partition.partitionEpoch);
        replay(record);
        for (int broker = 0; broker < brokers; broker++) {
            for (int ignored : stale[broker]) {
                replication.brokersToElrs().update(id, 1, null, new int[] {broker});
            }
        }
        topic = moved;
        firstPartition = 1;
    }

    /** Make a broker the leader of another topic's partition. */
    void lead(int broker) {
        Uuid id = nextId();
        replay(new TopicRecord().setName("elsewhere").setTopicId(id));
        replay(new PartitionRecord().
            setTopicId(id).
            setPartitionId(0).
            setReplicas(List.of(broker)).
            setIsr(List.of(broker)).
            setDirectories(List.of(directory(broker, 0))).
            setLeader(broker));
    }

    void leadNoMore() {
        remove(replication.getTopicId("elsewhere"));
    }

    /**
     * Remove a topic of one partition without stale index entries. Kafka would keep stale entries of the index of ELR
     * members, and with an empty ISR the entries of directories; a later request that finds them throws.
     */
    private void remove(Uuid id) {
        int first = replication.getPartition(id, 0).replicas[0];
        replay(new PartitionChangeRecord().
            setTopicId(id).
            setPartitionId(0).
            setIsr(List.of(first)).
            setLeader(first).
            setEligibleLeaderReplicas(List.of()));
        for (int broker = 0; broker < brokers; broker++) {
            replication.brokersToElrs().removeTopicEntryForBroker(id, broker);
        }
        replay(new RemoveTopicRecord().setTopicId(id));
    }

    private static List<Integer> boxed(int[] numbers) {
        List<Integer> list = new ArrayList<>();
        for (int number : numbers) {
            list.add(number);
        }
        return list;
    }

    static boolean contains(int[] numbers, int wanted) {
        for (int number : numbers) {
            if (number == wanted) {
                return true;
            }
        }
        return false;
    }

    Uuid nextId() {
        return new Uuid(77, ids++);
    }

    static Uuid directory(int broker, long number) {
        return new Uuid(1000 + broker, number);
    }

    // --- records -----------------------------------------------------------------------------------------------

    /** The result of an operation: an error or 0, the records that it wrote, and its response, if any. */
    static final class Outcome {
        int error;
        /** What else the answer says: a bit for each of {@code BridgeOperations.SAYS}. */
        int answer;
        /** True if the answer repeats ids of the request and the state after it. */
        BooleanSupplier fits = () -> true;
        Throwable thrown;
        List<ApiMessageAndVersion> records = List.of();
        Object response;

        static Outcome of(ControllerResult<?> result, int error) {
            Outcome outcome = new Outcome();
            outcome.records = result.records();
            outcome.response = result.response();
            outcome.error = error;
            return outcome;
        }

        static Outcome failed(Throwable thrown) {
            Outcome outcome = new Outcome();
            outcome.thrown = thrown;
            outcome.error = Errors.forException(thrown).code();
            return outcome;
        }
    }

    void replay(ApiMessage message) {
        long offset = nextOffset++;
        if (message instanceof PartitionChangeRecord record) {
            replication.replay(record);
        } else if (message instanceof BrokerRegistrationChangeRecord record) {
            cluster.replay(record);
        } else if (message instanceof RegisterBrokerRecord record) {
            List<Long> known = epochs.computeIfAbsent(record.brokerId(), b -> new ArrayList<>());
            if (known.isEmpty() || known.get(known.size() - 1) != record.brokerEpoch()) {
                known.add(record.brokerEpoch());
            }
            cluster.replay(record, offset);
        } else if (message instanceof UnregisterBrokerRecord record) {
            cluster.replay(record);
        } else if (message instanceof ConfigRecord record) {
            configs.replay(record);
        } else if (message instanceof ClearElrRecord record) {
            replication.replay(record);
        } else if (message instanceof FeatureLevelRecord record) {
            features.replay(record);
        } else if (message instanceof TopicRecord record) {
            replication.replay(record);
        } else if (message instanceof PartitionRecord record) {
            replication.replay(record);
        } else if (message instanceof RemoveTopicRecord record) {
            replication.replay(record);
        } else if (!(message instanceof BeginTransactionRecord) && !(message instanceof EndTransactionRecord)) {
            throw new BridgeException("no replay of a " + message.getClass().getSimpleName());
        }
        listener.accept(message);
    }

    void replayAll(List<ApiMessageAndVersion> records) {
        for (ApiMessageAndVersion record : records) {
            replay(record.message());
        }
    }

    /** Another controller becomes active. Kafka gives brokers sessions; the bridge forgets them after the operation. */
    void failOver() {
        cluster.deactivate();
        cluster.activate();
    }

    /** Forget every session: in a scenario each operation states the sessions that it needs. */
    void forgetSessions() {
        BrokerHeartbeatTracker tracker = cluster.heartbeatManager().tracker();
        while (tracker.maybeRemoveExpired(Long.MAX_VALUE / 2).isPresent()) {
            continue;
        }
    }

    // --- going back --------------------------------------------------------------------------------------------

    /** A state to which the controller can revert. A later mark has a higher number. */
    final class Mark {
        private final long number;
        private final long now = time.ms;
        private final long offset = nextOffset;
        private final long id = ids;
        private final String named = topic;
        private final int first = firstPartition;
        private final int[] registrations = new int[brokers];
        private final List<long[]> heartbeats = new ArrayList<>();

        Mark(long number) {
            this.number = number;
            registry.idempotentCreateSnapshot(number);
            for (int broker = 0; broker < brokers; broker++) {
                registrations[broker] = epochs.get(broker).size();
            }
            BrokerHeartbeatManager manager = cluster.heartbeatManager();
            for (BrokerHeartbeatManager.BrokerHeartbeatState broker : manager.brokers()) {
                OptionalLong shutdown = manager.controlledShutdownOffset(broker.id());
                heartbeats.add(new long[] {
                    broker.id(), broker.fenced() ? 1 : 0, broker.metadataOffset(), shutdown.orElse(-1)});
            }
        }

        void revert() {
            registry.revertToSnapshot(number);
            time.ms = now;
            nextOffset = offset;
            ids = id;
            topic = named;
            firstPartition = first;
            for (int broker = 0; broker < brokers; broker++) {
                List<Long> known = epochs.get(broker);
                while (known.size() > registrations[broker]) {
                    known.remove(known.size() - 1);
                }
            }
            BrokerHeartbeatManager manager = cluster.heartbeatManager();
            for (int broker = 0; broker < brokers; broker++) {
                manager.remove(broker);
            }
            for (long[] saved : heartbeats) {
                int broker = (int) saved[0];
                manager.register(broker, saved[1] != 0);
                manager.touch(broker, saved[1] != 0, saved[2]);
                if (saved[3] >= 0) {
                    manager.maybeUpdateControlledShutdownOffset(broker, saved[3]);
                }
            }
            forgetSessions();
        }
    }

    // --- what is seen ------------------------------------------------------------------------------------------

    String configured(String key) {
        return configs.getTopicConfig(topic, key).value();
    }

    Uuid topicId() {
        return replication.getTopicId(topic);
    }

    PartitionRegistration partition(int number) {
        return replication.getPartition(topicId(), firstPartition + number);
    }

    /** The number of entries of a broker for a partition in the index of ELR members. */
    int entries(int broker, int number) {
        int count = 0;
        var iterator = replication.brokersToElrs().partitionsWithBrokerInElr(broker);
        while (iterator.hasNext()) {
            var entry = iterator.next();
            if (entry.partitionId() == firstPartition + number && entry.topicId().equals(topicId())) {
                count++;
            }
        }
        return count;
    }

    /** Add the state to an observation. */
    void observe(Observation seen) {
        for (int number = 0; number < partitions; number++) {
            observe(partition(number), number == 0 ? "" : "second.", seen);
            for (int broker = 0; broker < brokers; broker++) {
                seen.put(number == 0 ? "elr_entries" : "second.elr_entries", entries(broker, number), broker);
            }
        }
        for (int broker = 0; broker < brokers; broker++) {
            BrokerRegistration registration = cluster.registration(broker);
            boolean known = registration != null;
            String place = "registrations[" + broker + "].";
            seen.put(place + "registered", known);
            seen.put(place + "epoch", known ? epochs.get(broker).indexOf(registration.epoch()) : 0);
            seen.put(place + "fenced", !known || registration.fenced());
            seen.put(place + "in_controlled_shutdown", known && registration.inControlledShutdown());
        }
        seen.put("min_insync_replicas", Integer.parseInt(configured(MIN_ISR)));
        seen.put("effective min ISR", replication.getTopicEffectiveMinIsr(topic));
        seen.put("unclean_election", configs.uncleanLeaderElectionEnabledForTopic(topic));
        seen.put("elr_on", features.isElrFeatureEnabled());
    }

    private void observe(PartitionRegistration p, String place, Observation seen) {
        String one = place + "partition.";
        seen.put(one + "leader", p.leader);
        seen.put(one + "leader_epoch", p.leaderEpoch);
        seen.put(one + "partition_epoch", p.partitionEpoch);
        seen.put(one + "leader_recovery_state", p.leaderRecoveryState.value());
        seen.put(one + "replicas.length", p.replicas.length);
        for (int i = 0; i < brokers; i++) {
            seen.put(one + "replicas", i < p.replicas.length ? p.replicas[i] : 0, i);
        }
        seen.put(one + "adding", mask(p.addingReplicas));
        seen.put(one + "removing", mask(p.removingReplicas));
        seen.put(one + "isr", mask(p.isr));
        seen.put(one + "elr", mask(p.elr));
        seen.put(one + "last_known_leader",
            p.lastKnownElr.length == 0 ? -2 : p.lastKnownElr.length == 1 ? p.lastKnownElr[0] : -3);
        int offline = 0;
        for (int i = 0; i < p.replicas.length; i++) {
            if (!cluster.hasOnlineDir(p.replicas[i], p.directories[i])
                && cluster.registration(p.replicas[i]) != null) {
                offline |= 1 << p.replicas[i];
            }
        }
        seen.put(one + "offline", offline);
    }

    /** The state as named numbers. */
    Observation observe() {
        Observation seen = new Observation();
        observe(seen);
        return seen;
    }

    private static int mask(int[] members) {
        int bits = 0;
        for (int member : members) {
            bits |= 1 << member;
        }
        return bits;
    }
}
