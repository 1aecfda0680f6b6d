package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignablePartition;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignableTopic;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.controller.BridgedController.Outcome;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.EligibleLeaderReplicasVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Operations as JSON objects. Fields that an operation omits have their current values: the leader as the sender, the
 * topic of the scenario. Epochs are the current ones; a field such as {@code brokerEpochBy} is added to one.
 */
final class BridgeOperations {
    private static final ControllerRequestContext[] CONTEXTS = new ControllerRequestContext[8];

    static {
        for (int version = 0; version < CONTEXTS.length; version++) {
            CONTEXTS[version] = new ControllerRequestContext(
                new RequestHeaderData().setRequestApiKey(ApiKeys.ALTER_PARTITION.id).
                    setRequestApiVersion((short) version),
                KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        }
    }

    /** The fields of answers beside their errors; the last: the answer does not fit the request or the state after it. */
    static final List<String> SAYS =
        List.of("caught up", "fenced", "in controlled shutdown", "may shut down", "not as the state");

    /** The bit of a field of SAYS; 0 if the field is false. */
    private static int says(String field, boolean value) {
        return value ? 1 << SAYS.indexOf(field) : 0;
    }

    private final BridgedController to;

    BridgeOperations(BridgedController controller) {
        this.to = controller;
    }

    /** Carry out an operation, and replay the records that Kafka writes. */
    Outcome run(JsonNode op) {
        return switch (op.get("name").textValue()) {
            case "alterPartition" -> asked(() -> alterPartition(op));
            case "brokerHeartbeat" -> heartbeat(op);
            case "registerBroker" -> register(op);
            case "fenceStaleBroker" -> fenceStaleBroker(op);
            case "unregisterBroker" -> asked(() ->
                Outcome.of(to.replication.unregisterBroker(op.get("broker").intValue()), 0));
            case "loseDirectory" -> loseDirectory(op);
            case "assignDirectory" -> assignDirectory(op);
            case "electLeaders" -> asked(() -> electLeaders(op));
            case "maybeElectUncleanLeaders" -> asked(() ->
                Outcome.of(to.replication.maybeElectUncleanLeaders(), 0));
            case "maybeBalancePartitionLeaders" -> asked(() ->
                Outcome.of(to.replication.maybeBalancePartitionLeaders(), 0));
            case "alterPartitionReassignments" -> asked(() -> reassign(op));
            case "incrementalAlterConfigs" -> asked(() -> alterConfigs(op));
            case "changeMinIsr" -> asked(() -> changeMinIsr(op.get("value").asText()));
            case "updateFeatures" -> asked(() -> updateFeatures(op));
            case "createTopic" -> asked(() -> createTopic(op));
            case "deleteTopic" -> asked(() -> deleteTopic(op));
            case "afterDeletion" -> afterDeletion(op);
            case "putFirst" -> {
                to.putFirst(op.get("count").intValue());
                yield new Outcome();
            }
            case "failover" -> {
                to.failOver();
                yield new Outcome();
            }
            default -> throw new BridgeException("no operation " + op.get("name"));
        };
    }

    private Outcome asked(Callable<Outcome> call) {
        Outcome outcome = decided(call);
        to.replayAll(outcome.records);
        outcome.answer |= says("not as the state", !outcome.fits.getAsBoolean());
        return outcome;
    }

    /** The result of a call of Kafka. An exception that Kafka throws is a result; one of the bridge is rethrown. */
    private static Outcome decided(Callable<Outcome> call) {
        try {
            return call.call();
        } catch (IndexOutOfBoundsException thrown) {
            // Kafka's answer has no entry for what was asked, unless Kafka threw this.
            Outcome outcome = Outcome.failed(thrown);
            outcome.error = Bridge.isOwn(thrown) ? Bridge.THROWS : outcome.error;
            return outcome;
        } catch (Exception thrown) {
            return Outcome.failed(thrown instanceof ApiException ? thrown : Bridge.ofKafka(thrown));
        }
    }

    // --- arguments ---------------------------------------------------------------------------------------------

    private static boolean flag(JsonNode op, String name, boolean otherwise) {
        return op.has(name) ? op.get(name).booleanValue() : otherwise;
    }

    private static int number(JsonNode op, String name, int otherwise) {
        return op.hasNonNull(name) ? op.get(name).intValue() : otherwise;
    }

    private String topic(JsonNode op) {
        return op.hasNonNull("topic") ? op.get("topic").textValue() : to.topic;
    }

    private int partitionNumber(JsonNode op) {
        return number(op, "partition", 0) + to.firstPartition;
    }

    private Uuid topicId(JsonNode op) {
        Uuid known = to.replication.getTopicId(topic(op));
        return known == null ? new Uuid(5, 5) : known;
    }

    /** The epoch of a broker's registration; if it is removed, the epoch of its last registration. */
    private long epoch(int broker) {
        BrokerRegistration registration = to.cluster.registration(broker);
        if (registration != null) {
            return registration.epoch();
        }
        List<Long> known = to.epochs.get(broker);
        return known == null ? -1 : known.get(known.size() - 1);
    }

    /** The epoch that a broker had before its last registration; −1 if there was none. */
    private long formerEpoch(int broker) {
        List<Long> known = to.epochs.get(broker);
        return known == null || known.size() < 2 ? -1 : known.get(known.size() - 2);
    }

    // --- the leader --------------------------------------------------------------------------------------------

    private Outcome alterPartition(JsonNode op) {
        int number = partitionNumber(op);
        Uuid id = topicId(op);
        final PartitionRegistration partition = to.replication.getTopic(id) == null
            ? null : to.replication.getPartition(id, number);
        int sender = number(op, "broker", partition == null ? -1 : partition.leader);
        int version = number(op, "requestVersion", 3);
        int stale = number(op, "stale", -1);
        List<AlterPartitionRequestData.BrokerState> members = new ArrayList<>();
        List<Integer> ids = new ArrayList<>();
        for (JsonNode member : op.get("newIsr")) {
            int broker = member.intValue();
            long epoch = broker == stale ? formerEpoch(broker) : epoch(broker);
            ids.add(broker);
            members.add(new AlterPartitionRequestData.BrokerState().setBrokerId(broker).setBrokerEpoch(epoch));
        }
        if (partition != null && sorted(ids).equals(sorted(partition.isr))) {
            // Kafka writes a record if only the order of the ISR changes. The model's ISR has no order.
            members.sort(java.util.Comparator.comparingInt(m -> indexOf(partition.isr, m.brokerId())));
            ids.sort(java.util.Comparator.comparingInt(member -> indexOf(partition.isr, member)));
        }
        AlterPartitionRequestData.PartitionData data = new AlterPartitionRequestData.PartitionData().
            setPartitionIndex(number).
            setLeaderEpoch((partition == null ? 0 : partition.leaderEpoch) + number(op, "leaderEpochBy", 0)).
            setPartitionEpoch((partition == null ? 0 : partition.partitionEpoch) + number(op, "partitionEpochBy", 0)).
            setLeaderRecoveryState((byte) (op.hasNonNull("leaderRecoveryState")
                && op.get("leaderRecoveryState").textValue().equals("RECOVERING") ? 1 : 0));
        if (version >= 3) {
            data.setNewIsrWithEpochs(members);
        } else {
            data.setNewIsr(ids);
        }
        AlterPartitionRequestData request = new AlterPartitionRequestData().
            setBrokerId(sender).
            setBrokerEpoch(epoch(sender) + number(op, "brokerEpochBy", 0)).
            setTopics(List.of(new AlterPartitionRequestData.TopicData().
                setTopicId(id).setPartitions(List.of(data))));
        return decide(request, version);
    }

    private Outcome decide(AlterPartitionRequestData request, int version) {
        var result = to.replication.alterPartition(CONTEXTS[version], request);
        var topic = result.response().topics().get(0);
        var answer = topic.partitions().get(0);
        Outcome outcome = Outcome.of(result, answer.errorCode());
        var asked = request.topics().get(0);
        int number = asked.partitions().get(0).partitionIndex();
        outcome.fits = () -> {
            boolean ids = topic.topicId().equals(asked.topicId()) && answer.partitionIndex() == number;
            if (!ids || answer.errorCode() != 0 || result.response().errorCode() != 0) {
                return ids && result.response().errorCode() == 0;
            }
            PartitionRegistration now = to.replication.getPartition(asked.topicId(), number);
            return answer.leaderId() == now.leader && answer.leaderEpoch() == now.leaderEpoch
                && answer.partitionEpoch() == now.partitionEpoch && sorted(answer.isr()).equals(sorted(now.isr))
                && answer.leaderRecoveryState() == now.leaderRecoveryState.value();
        };
        return outcome;
    }

    /** Answer a request that a broker of the cluster has sent. */
    Outcome alterPartition(AlterPartitionRequestData request) {
        return asked(() -> decide(request, 3));
    }

    private static List<Integer> sorted(List<Integer> members) {
        return members.stream().sorted().toList();
    }

    private static List<Integer> sorted(int[] members) {
        return java.util.Arrays.stream(members).sorted().boxed().toList();
    }

    private static int indexOf(int[] members, int wanted) {
        int at = 0;
        while (members[at] != wanted) {
            at++;
        }
        return at;
    }

    // --- brokers -----------------------------------------------------------------------------------------------

    static BrokerRegistrationRequestData.FeatureCollection features(boolean elr) {
        BrokerRegistrationRequestData.FeatureCollection found = new BrokerRegistrationRequestData.FeatureCollection();
        found.add(new BrokerRegistrationRequestData.Feature().
            setName(MetadataVersion.FEATURE_NAME).
            setMinSupportedVersion(MetadataVersion.MINIMUM_VERSION.featureLevel()).
            setMaxSupportedVersion(MetadataVersion.latestProduction().featureLevel()));
        if (elr) {
            found.add(new BrokerRegistrationRequestData.Feature().
                setName(BridgedController.ELR).
                setMinSupportedVersion((short) 0).
                setMaxSupportedVersion(EligibleLeaderReplicasVersion.LATEST_PRODUCTION.featureLevel()));
        }
        return found;
    }

    static RegisterBrokerRecord.BrokerFeatureCollection recordedFeatures(boolean elr) {
        RegisterBrokerRecord.BrokerFeatureCollection found = new RegisterBrokerRecord.BrokerFeatureCollection();
        for (BrokerRegistrationRequestData.Feature feature : features(elr)) {
            found.add(new RegisterBrokerRecord.BrokerFeature().
                setName(feature.name()).
                setMinSupportedVersion(feature.minSupportedVersion()).
                setMaxSupportedVersion(feature.maxSupportedVersion()));
        }
        return found;
    }

    static RegisterBrokerRecord.BrokerEndpointCollection endPoints(int broker) {
        RegisterBrokerRecord.BrokerEndpointCollection found = new RegisterBrokerRecord.BrokerEndpointCollection();
        found.add(new RegisterBrokerRecord.BrokerEndpoint().
            setSecurityProtocol(SecurityProtocol.PLAINTEXT.id).
            setPort(9092 + broker).setName("PLAINTEXT").setHost("localhost"));
        return found;
    }

    private Outcome register(JsonNode op) {
        int broker = op.get("broker").intValue();
        BrokerRegistration known = to.cluster.registration(broker);
        BrokerHeartbeatTracker tracker = to.cluster.heartbeatManager().tracker();
        if (flag(op, "live", false)) {
            tracker.updateContactTime(new BrokerIdAndEpoch(broker, epoch(broker)));
        }
        boolean same = flag(op, "same", false) && known != null;
        Uuid incarnation = same ? known.incarnationId() : to.nextId();
        long previous = op.has("previousBrokerEpoch") ? op.get("previousBrokerEpoch").longValue()
            : flag(op, "clean", false) ? epoch(broker) + number(op, "previousBrokerEpochBy", 0) : -1;
        BrokerRegistrationRequestData.ListenerCollection listeners =
            new BrokerRegistrationRequestData.ListenerCollection();
        listeners.add(new BrokerRegistrationRequestData.Listener().
            setName("PLAINTEXT").setHost("localhost").setPort(9092 + broker).
            setSecurityProtocol(SecurityProtocol.PLAINTEXT.id));
        BrokerRegistrationRequestData request = new BrokerRegistrationRequestData().
            setBrokerId(broker).
            setClusterId(BridgedController.CLUSTER_ID).
            setIncarnationId(incarnation).
            setListeners(listeners).
            setFeatures(features(flag(op, "elrFeatureSupported", true))).
            setLogDirs(same ? known.directories() : usedDirectories(broker)).
            setPreviousBrokerEpoch(previous);
        Outcome outcome = decided(() -> {
            Map<String, Short> finalized =
                new HashMap<>(to.features.finalizedFeatures(Long.MAX_VALUE).featureMap());
            finalized.put(KRaftVersion.FEATURE_NAME, (short) 0);
            return Outcome.of(to.cluster.registerBroker(request, to.nextOffset,
                new FinalizedControllerFeatures(finalized, Long.MAX_VALUE),
                number(op, "requestVersion", 4) >= 3), 0);
        });
        if (op.has("written") && outcome.thrown == null) {
            inPart(op.get("written"), outcome);
        } else {
            to.replayAll(outcome.records);
            if (outcome.response instanceof BrokerRegistrationReply reply && !same) {
                outcome.answer = says("not as the state", !fits(reply, request));
            }
        }
        return outcome;
    }

    /** True if the registration has what a broker's request and its answer say. */
    private boolean fits(BrokerRegistrationReply reply, BrokerRegistrationRequestData request) {
        BrokerRegistration now = to.cluster.registration(request.brokerId());
        return now.epoch() == reply.epoch() && now.incarnationId().equals(request.incarnationId())
            && now.directories().stream().sorted().toList().equals(request.logDirs().stream().sorted().toList())
            && now.listeners().size() == 1 && now.listeners().get("PLAINTEXT").port() == 9092 + request.brokerId()
            && now.supportedFeatures().size() == request.features().size()
            && now.rack().equals(java.util.Optional.ofNullable(request.rack()));
    }

    /** Write only the records of these partitions; then another controller becomes active. */
    private void inPart(JsonNode partitions, Outcome outcome) {
        List<ApiMessageAndVersion> written = new ArrayList<>();
        for (ApiMessageAndVersion record : outcome.records) {
            if (record.message() instanceof org.apache.kafka.common.metadata.PartitionChangeRecord change) {
                for (JsonNode number : partitions) {
                    if (change.partitionId() == number.intValue() + to.firstPartition) {
                        written.add(record);
                    }
                }
            }
        }
        outcome.records = written;
        to.replayAll(written);
        to.failOver();
    }

    private static List<Uuid> uuids(JsonNode texts) {
        List<Uuid> found = new ArrayList<>();
        for (JsonNode text : texts) {
            found.add(Uuid.fromString(text.textValue()));
        }
        return found;
    }

    /** The directories of a broker's replicas; if it has no replica, its registered directories. */
    private List<Uuid> usedDirectories(int broker) {
        List<Uuid> found = new ArrayList<>();
        for (int number = 0; to.topicId() != null && number < 2; number++) {
            PartitionRegistration partition = to.partition(number);
            if (partition != null && BridgedController.contains(partition.replicas, broker)) {
                Uuid directory = partition.directory(broker);
                if (!org.apache.kafka.common.DirectoryId.reserved(directory) && !found.contains(directory)) {
                    found.add(directory);
                }
            }
        }
        if (found.isEmpty()) {
            BrokerRegistration known = to.cluster.registration(broker);
            found.addAll(known == null ? List.of(BridgedController.directory(broker, 0)) : known.directories());
        }
        return found;
    }

    private Outcome heartbeat(JsonNode op) {
        int broker = op.get("broker").intValue();
        long epoch = epoch(broker) + number(op, "brokerEpochBy", 0);
        long offset = flag(op, "behind", false) ? to.cluster.registerBrokerRecordOffset(broker).orElse(0) - 1
            : to.nextOffset - 1;
        Uuid lost = flag(op, "losesDirectory", false) ? onlineDirectory(op) : null;
        if (lost != null) {
            list(broker, List.of(lost, nextDirectory(broker)));
        }
        BrokerHeartbeatRequestData request = new BrokerHeartbeatRequestData().
            setBrokerId(broker).
            setBrokerEpoch(epoch).
            setCurrentMetadataOffset(offset).
            setWantFence(flag(op, "wantFence", false)).
            setWantShutDown(flag(op, "wantShutDown", false)).
            setOfflineLogDirs(lost != null ? List.of(lost)
                : op.has("offlineLogDirs") ? uuids(op.get("offlineLogDirs")) : List.of());
        to.cluster.trackBrokerHeartbeat(broker, epoch);
        if (flag(op, "unregistered", false)) {
            asked(() -> Outcome.of(to.replication.unregisterBroker(broker), 0));
        }
        if (!flag(op, "elsewhere", false)) {
            return op.has("later") ? later(beat(request), op.get("later").longValue()) : beat(request);
        }
        to.lead(broker);
        try {
            return beat(request);
        } finally {
            to.leadNoMore();
        }
    }

    /** Process a heartbeat as QuorumController does. */
    private Outcome beat(BrokerHeartbeatRequestData request) {
        int broker = request.brokerId();
        Outcome outcome = asked(() -> {
            OptionalLong registered = to.cluster.registerBrokerRecordOffset(broker);
            if (registered.isEmpty()) {
                throw new org.apache.kafka.common.errors.StaleBrokerEpochException("no registration");
            }
            return Outcome.of(to.replication.processBrokerHeartbeat(request, registered.getAsLong()), 0);
        });
        if (outcome.response instanceof BrokerHeartbeatReply reply) {
            outcome.answer |= says("caught up", reply.isCaughtUp()) | says("fenced", reply.isFenced())
                | says("in controlled shutdown", reply.inControlledShutdown())
                | says("may shut down", reply.shouldShutDown());
            if (reply.inControlledShutdown()) {
                to.cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(broker, to.nextOffset - 1);
            }
        }
        return outcome;
    }

    /** This many milliseconds before or after the end of the session that an operation began, the controller looks. */
    private Outcome later(Outcome outcome, long ms) {
        to.time.ms += BridgedController.SESSION_MS + ms;
        Outcome fenced = asked(() -> Outcome.of(to.replication.maybeFenceOneStaleBroker(), 0));
        outcome.records = java.util.stream.Stream.concat(outcome.records.stream(), fenced.records.stream()).toList();
        outcome.error = outcome.error == 0 ? fenced.error : outcome.error;
        return outcome;
    }

    private Outcome fenceStaleBroker(JsonNode op) {
        if (flag(op, "over", false)) {
            int broker = op.get("broker").intValue();
            to.cluster.heartbeatManager().tracker().updateContactTime(
                new BrokerIdAndEpoch(broker, epoch(broker)), BridgedController.LONG_AGO);
        }
        return asked(() -> Outcome.of(to.replication.maybeFenceOneStaleBroker(), 0));
    }

    // --- log directories ---------------------------------------------------------------------------------------

    /** Register these directories of a broker by a record, without a decision of Kafka. */
    private void list(int broker, List<Uuid> directories) {
        to.replay(new BrokerRegistrationChangeRecord().
            setBrokerId(broker).setBrokerEpoch(epoch(broker)).setLogDirs(directories));
    }

    /** The directory of a broker's replica if it is online, else null. */
    private Uuid onlineDirectory(JsonNode op) {
        int broker = op.get("broker").intValue();
        PartitionRegistration partition = to.partition(number(op, "partition", 0));
        BrokerRegistration known = to.cluster.registration(broker);
        if (known == null || !BridgedController.contains(partition.replicas, broker)) {
            return null;
        }
        Uuid directory = partition.directory(broker);
        return known.directories().contains(directory) ? directory : null;
    }

    private Uuid nextDirectory(int broker) {
        return BridgedController.directory(broker, 1 + to.nextOffset);
    }

    /**
     * The directory of a broker's replica fails. Kafka keeps a broker's only directory in the registration, so the broker
     * registers another one first.
     */
    private Outcome loseDirectory(JsonNode op) {
        int broker = op.get("broker").intValue();
        BrokerRegistration known = to.cluster.registration(broker);
        Uuid lost = onlineDirectory(op);
        if (lost == null) {
            return new Outcome();
        }
        list(broker, List.of(lost, nextDirectory(broker)));
        // Another active broker that has not replayed the log prevents the end of a controlled shutdown.
        BrokerHeartbeatManager manager = to.cluster.heartbeatManager();
        manager.register(Integer.MAX_VALUE, false);
        try {
            Outcome outcome = beat(new BrokerHeartbeatRequestData().
                setBrokerId(broker).
                setBrokerEpoch(epoch(broker)).
                setCurrentMetadataOffset(to.nextOffset - 1).
                setWantFence(known.fenced()).
                setOfflineLogDirs(List.of(lost)));
            outcome.answer = 0;
            return outcome;
        } finally {
            manager.remove(Integer.MAX_VALUE);
        }
    }

    /** A broker assigns its replica to another directory, which is online. */
    private Outcome assignDirectory(JsonNode op) {
        int broker = op.get("broker").intValue();
        BrokerRegistration known = to.cluster.registration(broker);
        Uuid other = nextDirectory(broker);
        if (known != null) {
            List<Uuid> both = new ArrayList<>(known.directories());
            both.add(other);
            list(broker, both);
        }
        Outcome outcome = asked(() -> assign(op, broker, epoch(broker) + number(op, "brokerEpochBy", 0), other));
        if (known != null) {
            list(broker, outcome.error == 0 && outcome.thrown == null ? List.of(other) : known.directories());
        }
        return outcome;
    }

    private Outcome assign(JsonNode op, int broker, long epoch, Uuid directory) {
        AssignReplicasToDirsRequestData request = new AssignReplicasToDirsRequestData().
            setBrokerId(broker).
            setBrokerEpoch(epoch).
            setDirectories(List.of(new AssignReplicasToDirsRequestData.DirectoryData().
                setId(directory).
                setTopics(List.of(new AssignReplicasToDirsRequestData.TopicData().
                    setTopicId(topicId(op)).
                    setPartitions(List.of(new AssignReplicasToDirsRequestData.PartitionData().
                        setPartitionIndex(partitionNumber(op))))))));
        var result = to.replication.handleAssignReplicasToDirs(request);
        var to = result.response().directories().get(0);
        var partition = to.topics().get(0).partitions().get(0);
        Outcome outcome = Outcome.of(result, partition.errorCode());
        outcome.fits = () -> to.id().equals(directory) && to.topics().get(0).topicId().equals(topicId(op))
            && partition.partitionIndex() == partitionNumber(op) && result.response().errorCode() == 0;
        return outcome;
    }

    // --- operators, and periodic tasks -------------------------------------------------------------------------

    private Outcome electLeaders(JsonNode op) {
        ElectLeadersRequestData request = new ElectLeadersRequestData().
            setElectionType(ElectionType.valueOf(op.get("type").textValue()).value);
        request.topicPartitions().add(new ElectLeadersRequestData.TopicPartitions().
            setTopic(topic(op)).setPartitions(List.of(partitionNumber(op))));
        var result = to.replication.electLeaders(request);
        var topic = result.response().replicaElectionResults().get(0);
        var partition = topic.partitionResult().get(0);
        Outcome outcome = Outcome.of(result, partition.errorCode());
        outcome.fits = () -> topic.topic().equals(topic(op)) && partition.partitionId() == partitionNumber(op)
            && result.response().errorCode() == 0;
        return outcome;
    }

    private Outcome reassign(JsonNode op) {
        ReassignablePartition partition = new ReassignablePartition().setPartitionIndex(partitionNumber(op));
        if (op.get("replicas").isNull()) {
            partition.setReplicas(null);
        } else {
            List<Integer> replicas = new ArrayList<>();
            op.get("replicas").forEach(r -> replicas.add(r.intValue()));
            partition.setReplicas(replicas);
        }
        AlterPartitionReassignmentsRequestData request = new AlterPartitionReassignmentsRequestData().
            setTopics(List.of(new ReassignableTopic().setName(topic(op)).setPartitions(List.of(partition))));
        Versions.allowReplicationFactorChange(request, flag(op, "allowReplicationFactorChange", true));
        var result = to.replication.alterPartitionReassignments(request);
        var topic = result.response().responses().get(0);
        Outcome outcome = Outcome.of(result, topic.partitions().get(0).errorCode());
        outcome.fits = () -> topic.name().equals(topic(op)) && result.response().errorCode() == 0
            && topic.partitions().get(0).partitionIndex() == partitionNumber(op);
        return outcome;
    }

    private Outcome alterConfigs(JsonNode op) {
        boolean ofTopic = op.get("resourceType").textValue().equals("TOPIC");
        String name = op.has("resource") ? op.get("resource").textValue() : to.topic;
        String value = op.get("value").isNull() ? null : op.get("value").asText();
        return alterConfig(ofTopic ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER, name,
            op.get("key").textValue(), value);
    }

    private Outcome alterConfig(ConfigResource.Type type, String name, String key, String value) {
        ConfigResource resource = new ConfigResource(type, name);
        var result = Versions.alterConfigs(to.configs, Map.of(resource, Map.of(key,
            new SimpleImmutableEntry<>(value == null ? OpType.DELETE : OpType.SET, value))));
        return Outcome.of(result, result.response().get(resource).error().code());
    }

    /** Change the topic's min ISR. If it has this value, Kafka would write nothing, so the cluster's min ISR is changed. */
    private Outcome changeMinIsr(String value) {
        boolean cluster = to.configured(BridgedController.MIN_ISR).equals(value);
        return alterConfig(cluster ? ConfigResource.Type.BROKER : ConfigResource.Type.TOPIC,
            cluster ? "" : to.topic, BridgedController.MIN_ISR, value);
    }

    private Outcome updateFeatures(JsonNode op) {
        boolean on = to.features.isElrFeatureEnabled();
        short level = (short) number(op, "level", on ? 0 : 1);
        UpgradeType type = op.hasNonNull("upgradeType") ? UpgradeType.valueOf(op.get("upgradeType").textValue())
            : on ? UpgradeType.SAFE_DOWNGRADE : UpgradeType.UPGRADE;
        String name = BridgedController.ELR;
        var result = Versions.updateFeatures(to.configs, Map.of(name, level), Map.of(name, type));
        return Outcome.of(result, result.response().error().code());
    }

    private Outcome createTopic(JsonNode op) {
        String name = op.get("topic").textValue();
        CreateTopicsRequestData.CreatableTopic topic = new CreateTopicsRequestData.CreatableTopic().
            setName(name).setNumPartitions(-1).setReplicationFactor((short) -1);
        int number = 0;
        for (JsonNode replicas : op.get("assignments")) {
            List<Integer> brokers = new ArrayList<>();
            replicas.forEach(r -> brokers.add(r.intValue()));
            topic.assignments().add(new CreateTopicsRequestData.CreatableReplicaAssignment().
                setPartitionIndex(number++).setBrokerIds(brokers));
        }
        op.get("configs").properties().forEach(entry -> topic.configs().add(
            new CreateTopicsRequestData.CreatableTopicConfig().
                setName(entry.getKey()).setValue(entry.getValue().textValue())));
        CreateTopicsRequestData request = new CreateTopicsRequestData();
        request.topics().add(topic);
        var result = Versions.createTopics(to.replication, CONTEXTS[7], request, name);
        return Outcome.of(result, result.response().topics().find(name).errorCode());
    }

    private Outcome deleteTopic(JsonNode op) {
        Uuid id = topicId(op);
        var result = to.replication.deleteTopics(CONTEXTS[6], List.of(id));
        return Outcome.of(result, result.response().get(id).error().code());
    }

    /** Delete the topic; then each broker sends a heartbeat and is fenced, and the periodic tasks run. Then revert. */
    private Outcome afterDeletion(JsonNode op) {
        BridgedController.Mark mark = to.new Mark(2);
        try {
            Outcome outcome = asked(() -> deleteTopic(op));
            List<Callable<ControllerResult<?>>> tasks = List.of(
                to.replication::maybeElectUncleanLeaders, to.replication::maybeBalancePartitionLeaders);
            for (int broker : to.epochs.keySet()) {
                if (to.cluster.registration(broker) != null && outcome.thrown == null) {
                    outcome = later(beat(new BrokerHeartbeatRequestData().setBrokerId(broker).
                        setBrokerEpoch(epoch(broker)).setCurrentMetadataOffset(to.nextOffset)), 1);
                }
            }
            for (Callable<ControllerResult<?>> task : tasks) {
                outcome = outcome.thrown == null ? asked(() -> Outcome.of(task.call(), 0)) : outcome;
            }
            outcome.records = List.of();
            outcome.answer = 0;
            return outcome;
        } finally {
            mark.revert();
            to.registry.deleteSnapshot(2);
        }
    }
}
