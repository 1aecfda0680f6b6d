package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.yammer.metrics.core.MetricName;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import kafka.cluster.Partition;
import kafka.cluster.PendingPartitionChange;
import kafka.server.QuotaFactory;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.apache.kafka.server.replica.Replica;
import org.apache.kafka.storage.internals.log.LogReadResult;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A controller, brokers, and messages between them. Kafka's classes carry out the actions of the protocol "replication".
 * An action has the model's name and parameters.
 */
final class BridgedCluster implements Walked {
    /** A leader repeats a proposal when it takes the answer. */
    static final int REPEATED = -3;

    final BridgedClock time = new BridgedClock();
    final BridgedController controller;
    final BridgeOperations operations;
    final BridgedBroker[] brokers;
    /** The records of the metadata log except those of other topics. */
    final List<ApiMessage> metadata = new ArrayList<>();

    private final Path home;
    private final boolean waitsForCaughtUp;
    /** The errors of AlterPartition after which a leader reverts to the committed ISR. */
    private final Set<String> reverts = new HashSet<>();
    private final Fetch[] fetches;
    private final Fetch[] lateFetches;
    private final Fetched[] answers;
    private final AlterPartitionRequestData[] proposals;
    private final Decided[] decisions;
    private final int[] metadataSent;

    /** A fetch in flight. */
    private record Fetch(BridgedFetcher from, FetchRequest.PartitionData data, long brokerEpoch) { }

    /** A fetch response in flight. */
    private record Fetched(Fetch to, FetchResponseData.PartitionData data) { }

    /** The controller's answer to an AlterPartition: a top-level error, or the partition's answer. */
    private record Decided(int topLevel, AlterPartitionResponseData.PartitionData data) { }

    /** {@code memory} is the directory for the brokers' directories. */
    BridgedCluster(JsonNode setup, QuorumControllerMetrics metrics, Path memory) throws Exception {
        int count = setup.get("brokers").intValue();
        controller = new BridgedController(count, setup.get("minIsr").intValue(), metrics);
        controller.listener = this::written;
        controller.begin(setup);
        controller.forgetSessions();
        operations = new BridgeOperations(controller);
        time.ms = 1_000 * BridgedBroker.LAG_MS;  // a follower that never fetched counts as caught up at time 0
        waitsForCaughtUp = setup.path("waitsForCaughtUp").booleanValue();
        setup.path("reverts").forEach(error -> reverts.add(error.textValue()));
        home = Files.createTempDirectory(memory, "cluster-");
        brokers = new BridgedBroker[count];
        fetches = new Fetch[count];
        lateFetches = new Fetch[count];
        answers = new Fetched[count];
        proposals = new AlterPartitionRequestData[count];
        decisions = new Decided[count];
        metadataSent = new int[count];
        for (int b = 0; b < count; b++) {
            brokers[b] = new BridgedBroker(b, this, home);
            brokers[b].load();
            brokers[b].begin(controller.epochs.get(b).get(0));
        }
        int leader = controller.partition(0).leader;
        for (int value = 0; value < setup.path("records").intValue(); value++) {
            append(leader, value, (short) -1);
        }
        for (int round = 0; round < 2 * setup.path("records").intValue() + 1; round++) {
            for (int f : controller.partition(0).isr) {
                if (f != leader && setup.path("records").intValue() > 0) {
                    sendFetch(f);
                    answerFetch(leader, f, false);
                    takeFetchAnswer(f);
                }
            }
        }
    }

    private void written(ApiMessage message) {
        boolean ours = true;
        if (message instanceof TopicRecord record) {
            ours = record.name().equals(BridgedController.TOPIC);
        } else if (message instanceof PartitionRecord record) {
            ours = record.topicId().equals(controller.replication.getTopicId(BridgedController.TOPIC));
        } else if (message instanceof PartitionChangeRecord record) {
            ours = record.topicId().equals(controller.replication.getTopicId(BridgedController.TOPIC));
        } else if (message instanceof RemoveTopicRecord) {
            ours = false;
        }
        if (ours) {
            metadata.add(message);
        }
    }

    @Override
    public void close() throws Exception {
        for (BridgedBroker broker : brokers) {
            if (broker != null && broker.up) {
                broker.kill();
            }
        }
        for (MetricName name : KafkaYammerMetrics.defaultRegistry().allMetrics().keySet()) {
            KafkaYammerMetrics.defaultRegistry().removeMetric(name);
        }
        try (Stream<Path> paths = Files.walk(home)) {
            for (Path path : (Iterable<Path>) paths.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }

    // --- actions -----------------------------------------------------------------------------------------------

    @Override
    public int run(JsonNode action) throws Exception {
        if (!waitsForCaughtUp) {
            time.ms += 2 * BridgedBroker.LAG_MS;  // no follower is caught up any more
        }
        int b = number(action, "b", number(action, "leader", number(action, "f", 0)));
        int f = number(action, "f", 0);
        boolean again = action.path("again").booleanValue();
        BridgedBroker broker = brokers[b];
        return switch (action.get("name").textValue()) {
            case "send_fetch" -> sendFetch(f);
            case "receive_late_fetch" -> {
                fetches[f] = lateFetches[f];
                lateFetches[f] = null;
                yield DONE;
            }
            case "answer_fetch" -> answerFetch(b, f, again);
            case "refuse_fetch" -> refuseFetch(f);
            case "take_fetch_answer" -> takeFetchAnswer(f);
            case "propose_expand" -> proposeExpand(broker, f);
            case "propose_shrink", "propose_isr" -> proposeShrink(broker);
            case "retry_alter_partition" -> retry(b);
            case "handle_alter_partition" -> handleAlterPartition(b, again);
            case "take_alter_answer" -> takeAlterAnswer(b);
            case "lose_alter_partition" -> {
                proposals[b] = null;
                decisions[b] = null;
                yield DONE;
            }
            case "replay_metadata" -> {
                int end = metadataSent[b] > 0 ? metadataSent[b] : metadata.size();
                metadataSent[b] = 0;
                broker.replay(end);
                yield DONE;
            }
            case "send_metadata" -> {
                metadataSent[b] = metadata.size();
                yield DONE;
            }
            case "write_acks_all" -> append(b, number(action, "value", 0), (short) -1);
            case "write_acks_one" -> append(b, number(action, "value", 0), (short) 1);
            case "acknowledge" -> acknowledge(broker, number(action, "value", 0));
            case "fence_broker" -> ask("fenceStaleBroker", b, "over");
            case "unfence_broker" -> ask("brokerHeartbeat", b);
            case "begin_shutdown" -> {
                int asked = ask("brokerHeartbeat", b, "wantShutDown", "elsewhere");
                broker.replicas.beginControlledShutdown();
                yield asked;
            }
            case "finish_shutdown" -> finishShutdown(b);
            case "stop_unseen" -> {
                broker.stop();
                forgetMessages(b);
                yield DONE;
            }
            case "stop_before_registration" -> {
                broker.startAndStop();
                yield DONE;
            }
            case "crash_broker" -> crash(b, Long.MAX_VALUE);
            case "crash_and_lose" -> crash(b, number(action, "keep", 0));
            case "lose_disk" -> {
                int done = crash(b, Long.MAX_VALUE);
                broker.emptyDisk();
                yield done;
            }
            case "start_broker" -> start(b);
            case "start_broker_in_part" -> register(b, broker.stoppedEpoch(), true);
            case "flush_log" -> {
                broker.flush();
                yield DONE;
            }
            case "controller" -> error(operations.run(action.get("op")));
            default -> throw new BridgeException("no action " + action.get("name"));
        };
    }

    private static int number(JsonNode action, String name, int otherwise) {
        return action.has(name) ? action.get(name).intValue() : otherwise;
    }

    private int error(BridgedController.Outcome outcome) {
        controller.forgetSessions();
        return outcome.error == 0 ? DONE : outcome.error;
    }

    /** Carry out an operation of the controller about a broker; each flag is set to true. */
    private int ask(String name, int broker, String... flags) {
        ObjectNode operation = JsonNodeFactory.instance.objectNode().put("name", name).put("broker", broker);
        for (String flag : flags) {
            operation.put(flag, true);
        }
        return error(operations.run(operation));
    }

    // --- fetches -----------------------------------------------------------------------------------------------

    private int sendFetch(int f) {
        BridgedBroker broker = brokers[f];
        var found = broker.replicas.replicaFetcherManager().getFetcher(BridgedBroker.PARTITION);
        if (found.isEmpty()) {
            return NOTHING;
        }
        BridgedFetcher fetcher = (BridgedFetcher) found.get();
        FetchRequest.PartitionData data = fetcher.send();
        if (data == null) {
            return NOTHING;
        }
        if (fetches[f] != null) {
            lateFetches[f] = fetches[f];
        }
        fetches[f] = new Fetch(fetcher, data, broker.epoch);
        return DONE;
    }

    /** The leader's read for a fetch. {@code again}: as DelayedFetch reads when it completes, with the HWM of that time. */
    private LogReadResult read(int leader, int f, Fetch fetch, boolean again) {
        var params = Versions.fetchParams(f, fetch.brokerEpoch);
        var partition = new TopicIdPartition(fetch.data.topicId, BridgedBroker.PARTITION);
        var wanted = CollectionConverters.asScala(List.of(new Tuple2<>(partition, fetch.data))).toSeq();
        return brokers[leader].replicas.readFromLog(params, wanted, QuotaFactory.UNBOUNDED_QUOTA, again).head()._2();
    }

    private int answerFetch(int leader, int f, boolean again) throws Exception {
        Fetch fetch = fetches[f];
        LogReadResult read = read(leader, f, fetch, false);
        while (Versions.optional(read.divergingEpoch()).isPresent() && truncatesNothing(f, fetch, read)) {
            fetch.from.take(fetch.data, answer(read));
            fetch = new Fetch(fetch.from, fetch.from.send(), fetch.brokerEpoch);
            fetches[f] = fetch;
            read = read(leader, f, fetch, false);
        }
        if (!again) {
            fetches[f] = null;
        }
        if (read.error() == Errors.NONE) {
            read = read(leader, f, fetch, true);
        } else if (read.error() != Errors.OFFSET_OUT_OF_RANGE) {
            return read.error().code();
        }
        if (brokers[f].up && brokers[f].epoch == fetch.brokerEpoch) {
            answers[f] = new Fetched(fetch, answer(read));
        }
        return DONE;
    }

    private static FetchResponseData.PartitionData answer(LogReadResult read) throws IOException {
        FetchResponseData.PartitionData data = new FetchResponseData.PartitionData().
            setErrorCode(read.error().code()).
            setHighWatermark(read.highWatermark()).
            setLastStableOffset(Versions.<Long>optional(read.lastStableOffset()).orElse(-1L)).
            setLogStartOffset(read.leaderLogStartOffset()).
            setRecords(inMemory(read.info().records));
        Versions.<FetchResponseData.EpochEndOffset>optional(read.divergingEpoch()).ifPresent(data::setDivergingEpoch);
        return data;
    }

    /**
     * True if the follower waits for this answer and will truncate nothing. A former leader that appended nothing fetches
     * with the epoch in which it led. The new leader may not know this epoch; then the follower fetches again with an
     * earlier epoch. The model has only one fetch here, because it has the epochs of records only.
     */
    private boolean truncatesNothing(int f, Fetch fetch, LogReadResult read) {
        BridgedBroker broker = brokers[f];
        if (!broker.up || broker.epoch != fetch.brokerEpoch || broker.logs.log() == null
            || fetch.data.fetchOffset != broker.logs.log().logEndOffset()
            || !fetch.data.equals(fetch.from.send())) {
            return false;
        }
        var diverging = Versions.<FetchResponseData.EpochEndOffset>optional(read.divergingEpoch()).get();
        var own = Versions.<OffsetAndEpoch>optional(broker.logs.log().endOffsetForEpoch(diverging.epoch()));
        long end = own.isEmpty() ? diverging.endOffset()
            : Versions.epoch(own.get()) != diverging.epoch() ? own.get().offset()
            : Math.min(own.get().offset(), diverging.endOffset());
        return end >= fetch.data.fetchOffset;
    }

    private static Records inMemory(Records records) throws IOException {
        if (records instanceof FileRecords file) {
            ByteBuffer bytes = ByteBuffer.allocate(file.sizeInBytes());
            file.readInto(bytes, 0);
            return MemoryRecords.readableRecords(bytes);
        }
        return records;
    }

    /** The receiver is down, or refuses the fetch: the result has the error. If it accepts the fetch: REFUSED. */
    private int refuseFetch(int f) {
        Fetch fetch = fetches[f];
        fetches[f] = null;
        int leader = fetch.from.leaderId();
        if (!brokers[leader].up) {
            return DONE;
        }
        LogReadResult read = read(leader, f, fetch, false);
        return read.error() == Errors.NONE || read.error() == Errors.OFFSET_OUT_OF_RANGE ? REFUSED
            : REFUSAL - read.error().code();
    }

    private int takeFetchAnswer(int f) throws ReflectiveOperationException {
        Fetched answer = answers[f];
        answers[f] = null;
        answer.to.from.take(answer.to.data, answer.data);
        return DONE;
    }

    // --- ISR changes -------------------------------------------------------------------------------------------

    /** The leader handles the follower's last fetch once more, and its proposal is sent. */
    private int proposeExpand(BridgedBroker leader, int f) {
        Partition partition = leader.partition();
        Replica replica = partition.getReplica(f).get();
        var state = replica.stateSnapshot();
        Optional<Long> epoch = Versions.optional(state.brokerEpoch());
        if (epoch.isEmpty()) {
            return NOTHING;
        }
        return proposing(leader, () -> partition.updateFollowerFetchState(replica, state.logEndOffsetMetadata(),
            state.logStartOffset(), time.ms, state.lastFetchLeaderLogEndOffset(), epoch.get()));
    }

    private int proposeShrink(BridgedBroker leader) {
        time.ms += 2 * BridgedBroker.LAG_MS;
        return proposing(leader, leader.partition()::maybeShrinkIsr);
    }

    private int proposing(BridgedBroker leader, Runnable event) {
        LeaderAndIsr before = leader.proposed;
        leader.proposals = BridgedBroker.Proposals.SENT;
        try {
            event.run();
        } catch (org.apache.kafka.common.errors.NotLeaderOrFollowerException stale) {
            return NOTHING;
        } finally {
            leader.proposals = BridgedBroker.Proposals.DECLINED;
        }
        return leader.proposed == before ? NOTHING : DONE;
    }

    void sendProposal(int b) {
        LeaderAndIsr wanted = brokers[b].proposed;
        proposals[b] = new AlterPartitionRequestData().
            setBrokerId(b).
            setBrokerEpoch(brokers[b].epoch).
            setTopics(List.of(new AlterPartitionRequestData.TopicData().
                setTopicId(controller.topicId()).
                setPartitions(List.of(new AlterPartitionRequestData.PartitionData().
                    setPartitionIndex(0).
                    setLeaderEpoch(wanted.leaderEpoch()).
                    setNewIsrWithEpochs(wanted.isrWithBrokerEpoch()).
                    setLeaderRecoveryState(wanted.leaderRecoveryState().value()).
                    setPartitionEpoch(wanted.partitionEpoch())))));
    }

    private int retry(int b) {
        if (brokers[b].decision == null || brokers[b].decision.isDone()) {
            return NOTHING;
        }
        sendProposal(b);
        return DONE;
    }

    private int handleAlterPartition(int b, boolean again) {
        AlterPartitionRequestData request = proposals[b];
        if (!again) {
            proposals[b] = null;
        }
        BridgedController.Outcome outcome = operations.alterPartition(request.duplicate());
        controller.forgetSessions();
        if (brokers[b].up && brokers[b].epoch == request.brokerEpoch()) {
            decisions[b] = outcome.thrown != null ? new Decided(outcome.error, null) : new Decided(0,
                ((AlterPartitionResponseData) outcome.response).topics().get(0).partitions().get(0));
        }
        return DONE;
    }

    /** Hand an answer to the partition, as DefaultAlterPartitionManager does. */
    private int takeAlterAnswer(int b) {
        Decided answer = decisions[b];
        decisions[b] = null;
        BridgedBroker broker = brokers[b];
        if (answer.topLevel != 0 || broker.decision == null) {
            return DONE;  // the request remains and can be sent again
        }
        var before = broker.decision;
        broker.proposals = BridgedBroker.Proposals.KEPT;
        try {
            if (answer.data.errorCode() == 0) {
                broker.decision.complete(new LeaderAndIsr(answer.data.leaderId(), answer.data.leaderEpoch(),
                    answer.data.isr(), LeaderRecoveryState.of(answer.data.leaderRecoveryState()),
                    answer.data.partitionEpoch()));
            } else {
                broker.decision.completeExceptionally(Errors.forCode(answer.data.errorCode()).exception());
            }
        } finally {
            broker.proposals = BridgedBroker.Proposals.DECLINED;
        }
        return broker.decision == before ? DONE : REPEATED;
    }

    /** What the first leader does after each error of AlterPartition: it repeats, reverts or waits. */
    ObjectNode afterErrors() {
        BridgedBroker leader = brokers[controller.partition(0).leader];
        append(leader.id, 0, (short) 1);  // the followers lag
        ObjectNode found = JsonNodeFactory.instance.objectNode();
        for (Errors error : Errors.values()) {
            if (error == Errors.NONE || leader.partition().partitionState().isr().size() < 2) {
                continue;
            }
            proposeShrink(leader);
            var before = leader.decision;
            leader.proposals = BridgedBroker.Proposals.KEPT;
            before.completeExceptionally(error.exception());
            boolean repeats = leader.decision != before;
            found.put(error.name(),
                repeats ? "repeats" : leader.partition().partitionState().isInflight() ? "waits" : "reverts");
            leader.decision.completeExceptionally(Errors.INELIGIBLE_REPLICA.exception());
            if (leader.partition().partitionState().isInflight()) {
                leader.partition().partitionState_$eq(
                    ((PendingPartitionChange) leader.partition().partitionState()).lastCommittedState());
            }
            leader.proposals = BridgedBroker.Proposals.DECLINED;
        }
        return found;
    }

    // --- producers ---------------------------------------------------------------------------------------------

    private int append(int leader, int value, short acks) {
        MemoryRecords records = MemoryRecords.withRecords(
            Compression.NONE, new SimpleRecord(0L, null, new byte[] {(byte) value}));
        try {
            Versions.append(brokers[leader].partition(), records, acks);
        } catch (org.apache.kafka.common.errors.ApiException refused) {
            return Errors.forException(refused).code();
        }
        return DONE;
    }

    private int acknowledge(BridgedBroker leader, int value) {
        List<BridgedBroker.Stored> content = leader.content();
        for (int offset = 0; offset < content.size(); offset++) {
            if (content.get(offset).value() == value) {
                var reached = leader.partition().checkEnoughReplicasReachOffset(offset + 1);
                return (Boolean) reached._1() && reached._2() == Errors.NONE ? DONE : REFUSED;
            }
        }
        return REFUSED;
    }

    // --- lives of brokers --------------------------------------------------------------------------------------

    private int finishShutdown(int b) throws Exception {
        for (BridgedBroker other : brokers) {  // the controller waits until all active brokers have replayed the log
            controller.cluster.heartbeatManager().touch(other.id, controller.cluster.registration(other.id).fenced(),
                controller.nextOffset);
        }
        int asked = ask("brokerHeartbeat", b, "wantShutDown");
        brokers[b].stop();
        forgetMessages(b);
        return asked;
    }

    private int crash(int b, long keep) throws Exception {
        brokers[b].crash(keep);
        forgetMessages(b);
        return DONE;
    }

    private void forgetMessages(int b) {
        answers[b] = null;
        decisions[b] = null;
        metadataSent[b] = 0;
    }

    /** {@code inPart}: the controller fails before it writes the registration. */
    private int register(int b, long previous, boolean inPart) {
        ObjectNode operation = JsonNodeFactory.instance.objectNode().put("name", "registerBroker").put("broker", b).
            put("previousBrokerEpoch", previous);
        if (inPart) {
            operation.putArray("written").add(0);
        }
        return error(operations.run(operation));
    }

    private int start(int b) throws Exception {
        long previous = brokers[b].load().orElse(-1);
        int asked = register(b, previous, false);
        if (asked == DONE) {
            brokers[b].begin(controller.cluster.registration(b).epoch());
        }
        return asked;
    }

    // --- what is seen ------------------------------------------------------------------------------------------

    /** The number of the registration that has a broker epoch, from 0; −1 if there is none. */
    private int ordinal(int broker, long epoch) {
        return controller.epochs.get(broker).indexOf(epoch);
    }

    private static int mask(Iterable<Integer> members) {
        int bits = 0;
        for (int member : members) {
            bits |= 1 << member;
        }
        return bits;
    }

    /** The state of the controller, the brokers and the messages. */
    @Override
    public Observation observe() {
        Observation seen = controller.observe();
        for (int b = 0; b < brokers.length; b++) {
            seen.put("broker.up", brokers[b].up, b);
            if (brokers[b].up) {
                observe(brokers[b], b, seen);
            }
            observe(fetches[b], b, seen);
            observe(answers[b], b, seen);
            observe(proposals[b], b, seen);
            observe(decisions[b], b, seen);
        }
        return seen;
    }

    private void observe(BridgedBroker broker, int b, Observation seen) {
        var known = broker.image.topics().getTopic(BridgedController.TOPIC).partitions().get(0);
        Partition partition = broker.partition();
        var log = broker.logs.log();
        boolean leads = partition != null && partition.isLeader();
        seen.put("broker.epoch", ordinal(b, broker.epoch), b);
        int leader = partition == null || partition.leaderReplicaIdOpt().isEmpty() ? known.leader
            : (Integer) partition.leaderReplicaIdOpt().get();
        seen.put("view.leader", leader, b);
        seen.put("view.leader_epoch", partition == null ? known.leaderEpoch : partition.getLeaderEpoch(), b);
        seen.put("view.partition_epoch",
            partition == null ? known.partitionEpoch : partition.getPartitionEpoch(), b);
        seen.put("view.isr", leads ? mask(Versions.all(partition.partitionState().isr())) : -1, b);
        seen.put("view.min_isr", log == null ? -1 : log.config().minInSyncReplicas, b);
        int active = 0;
        for (int other = 0; other < brokers.length; other++) {
            if (broker.cache.hasAliveBroker(other) && !broker.cache.isBrokerShuttingDown(other)) {
                active |= 1 << other;
            }
        }
        seen.put("view.active", active, b);
        for (int other = 0; other < brokers.length; other++) {
            var registration = broker.image.cluster().broker(other);
            seen.put("view.epochs", registration == null ? -1 : ordinal(other, registration.epoch()), b, other);
        }
        List<BridgedBroker.Stored> content = broker.content();
        seen.put("log.length", content.size(), b);
        for (int offset = 0; offset < content.size(); offset++) {
            seen.put("log.value", content.get(offset).value(), b, offset);
            seen.put("log.epoch", content.get(offset).epoch(), b, offset);
        }
        seen.put("hwm", log == null ? 0 : (int) log.highWatermark(), b);
        seen.put("leso", leads ? (int) (long) (Long) partition.leaderEpochStartOffsetOpt().get() : 0, b);
        seen.put("maximal_isr", leads ? mask(Versions.all(partition.partitionState().maximalIsr())) : 0, b);
        for (int f = 0; leads && f < brokers.length; f++) {
            Option<Replica> replica = f == b ? Option.empty() : partition.getReplica(f);
            var state = replica.isDefined() ? replica.get().stateSnapshot() : null;
            boolean heard = state != null && state.logEndOffset() >= 0;
            seen.put("follower.leo", heard ? (int) state.logEndOffset() : -1, b, f);
            Optional<Long> epoch = heard ? Versions.optional(state.brokerEpoch()) : Optional.empty();
            seen.put("follower.epoch", epoch.isPresent() ? ordinal(f, epoch.get()) : -1, b, f);
        }
        for (int offset = 0; leads && offset < content.size(); offset++) {
            var reached = partition.checkEnoughReplicasReachOffset(offset + 1);
            int acknowledged = !(Boolean) reached._1() ? 0 : reached._2() == Errors.NONE ? 1 : 2;
            seen.put("acknowledged", acknowledged, b, offset);
        }
    }

    private void observe(Fetch fetch, int b, Observation seen) {
        seen.put("fetch", fetch != null, b);
        if (fetch != null) {
            seen.put("fetch.leader", fetch.from.leaderId(), b);
            seen.put("fetch.leader_epoch", fetch.data.currentLeaderEpoch.orElse(-1), b);
            seen.put("fetch.offset", (int) fetch.data.fetchOffset, b);
            seen.put("fetch.broker_epoch", ordinal(b, fetch.brokerEpoch), b);
        }
    }

    private static void observe(Fetched answer, int b, Observation seen) {
        seen.put("answer", answer != null, b);
        if (answer != null) {
            boolean diverging = answer.data.divergingEpoch().epoch() >= 0
                || answer.data.errorCode() == Errors.OFFSET_OUT_OF_RANGE.code();
            seen.put("answer.leader_epoch", answer.to.data.currentLeaderEpoch.orElse(-1), b);
            seen.put("answer.offset", (int) answer.to.data.fetchOffset, b);
            seen.put("answer.diverging", diverging, b);
            int value = -1;
            if (!diverging && answer.data.records() instanceof MemoryRecords records) {
                for (var record : records.records()) {
                    value = record.value().get(record.value().position());
                }
            }
            seen.put("answer.record", value, b);
            seen.put("answer.hwm", diverging ? -1 : (int) answer.data.highWatermark(), b);
        }
    }

    private void observe(AlterPartitionRequestData request, int b, Observation seen) {
        seen.put("alter", request != null, b);
        if (request != null) {
            var data = request.topics().get(0).partitions().get(0);
            seen.put("alter.leader_epoch", data.leaderEpoch(), b);
            seen.put("alter.partition_epoch", data.partitionEpoch(), b);
            seen.put("alter.broker_epoch", ordinal(b, request.brokerEpoch()), b);
            int members = 0;
            for (var member : data.newIsrWithEpochs()) {
                members |= 1 << member.brokerId();
                seen.put("alter.epoch", ordinal(member.brokerId(), member.brokerEpoch()), b, member.brokerId());
            }
            seen.put("alter.isr", members, b);
        }
    }

    private void observe(Decided decided, int b, Observation seen) {
        seen.put("decision", decided != null, b);
        if (decided != null) {
            int error = decided.topLevel != 0 ? decided.topLevel : decided.data.errorCode();
            int outcome = error == 0 ? 0 : reverts.contains(Errors.forCode((short) error).name()) ? 1 : 2;
            seen.put("decision.outcome", outcome, b);
            seen.put("decision.leader_epoch", error == 0 ? decided.data.leaderEpoch() : -1, b);
            seen.put("decision.partition_epoch", error == 0 ? decided.data.partitionEpoch() : -1, b);
            seen.put("decision.isr", error == 0 ? mask(decided.data.isr()) : -1, b);
        }
    }
}
