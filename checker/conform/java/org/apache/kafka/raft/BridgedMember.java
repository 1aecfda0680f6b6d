package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.controller.BridgedClock;
import org.apache.kafka.raft.internals.BatchMemoryPool;
import org.apache.kafka.raft.internals.BlockingMessageQueue;
import org.apache.kafka.raft.internals.StringSerde;
import org.apache.kafka.server.common.KRaftVersion;

/** A raft client with all that it gets from outside: log, quorum state, clock, random numbers, timers and network. */
final class BridgedMember implements NetworkChannel, QuorumStateStore, ExpirationService {
    /** The fetch timeout and the election timeout. A member's clock moves by it when one of them expires. */
    static final int TIMEOUT_MS = 1_000;
    static final int PARK_MS = 500;
    /** In place of a voter's number: the key of the member's fetch. */
    static final int FETCH = -1;
    private static final ListenerName LISTENER = new ListenerName("CONTROLLER");
    private static final QuorumConfig CONFIG = new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, Map.of(
        QuorumConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, TIMEOUT_MS,
        QuorumConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, TIMEOUT_MS,
        QuorumConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, Integer.MAX_VALUE,
        QuorumConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, 0,
        QuorumConfig.QUORUM_LINGER_MS_CONFIG, 0), false));

    private static final MemoryPool MEMORY = new BatchMemoryPool(1, KafkaRaftClient.MAX_BATCH_SIZE_BYTES);

    /** A request that the client has sent, and its response to come. */
    record Sent(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> response, String state) { }

    final int id;
    final BridgedLog log = new BridgedLog();
    final BridgedClock clock = new BridgedClock();
    /** The messages by which leaders announce that they lead, by epoch. */
    private final Map<Integer, BeginQuorumEpochRequestData> announced;
    private final int voters;
    /** The newest request to each voter that has not left the member, and the last one that has. */
    private final Map<Integer, Sent> held = new HashMap<>();
    private final Map<Integer, Sent> awaited = new HashMap<>();
    private Optional<ElectionState> stored = Optional.empty();
    private Queue queue;
    /** The timer of the fetch that was parked last. */
    CompletableFuture<?> parkTimer;
    KafkaRaftClient<String> client;
    private int correlation = 0;

    /** Kafka's queue; a poll does not wait. */
    private static final class Queue extends BlockingMessageQueue {
        @Override
        public void wakeup() {
        }

        void rest() {
            super.wakeup();
        }
    }

    BridgedMember(int id, int voters, Map<Integer, BeginQuorumEpochRequestData> announced) {
        this.id = id;
        this.voters = voters;
        this.announced = announced;
        start();
    }

    /** Start, with the log and the quorum state from before. */
    void start() {
        queue = new Queue();
        held.clear();
        awaited.clear();
        client = new KafkaRaftClient<>(OptionalInt.of(id), new Uuid(7, id + 1), new StringSerde(), this, queue, log.log,
            MEMORY, clock, this, PARK_MS, true, "cluster", List.of(),
            Endpoints.fromInetSocketAddresses(Map.of(LISTENER, address(id))),
            new SupportedVersionRange((short) 0, (short) 0), new LogContext(), new Random() {
                @Override
                public int nextInt(int bound) {
                    return 0;
                }
            }, CONFIG);
        Map<Integer, InetSocketAddress> addresses = new HashMap<>();
        for (int voter = 0; voter < voters; voter++) {
            addresses.put(voter, address(voter));
        }
        client.initialize(addresses, this, new Metrics(), ignored -> { });
    }

    /** Start as a follower that did not vote. */
    void follow(int epoch, int leader) {
        stored = Optional.of(ElectionState.withElectedLeader(epoch, leader, Optional.empty(), java.util.Set.of()));
        start();
    }

    private static InetSocketAddress address(int member) {
        return InetSocketAddress.createUnresolved("member-" + member, 9093);
    }

    /** Handle all messages, and do what follows from them without time passing. */
    void drive() {
        while (!queue.isEmpty()) {
            client.poll();
        }
        queue.rest();
        client.poll();
    }

    /** Let the timer run out. A restarted leader has two: the second one runs out with the first. */
    void expireTimer() {
        clock.ms += TIMEOUT_MS;
        drive();
        drive();
    }

    /** Let the append timer run out. Kafka starts it when records are prepared, which it may append later. */
    void expireAppendTimer() throws ReflectiveOperationException {
        Object accumulator = client.quorum().leaderStateOrThrow().accumulator();
        Object timer = field(accumulator, "lingerTimer");
        Method reset = timer.getClass().getDeclaredMethod("reset", long.class);
        reset.setAccessible(true);
        reset.invoke(timer, clock.ms);
        drive();
    }

    static Object field(Object object, String name) throws ReflectiveOperationException {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    CompletableFuture<RaftResponse.Outbound> handle(short version, ApiMessage data) {
        RaftRequest.Inbound request = new RaftRequest.Inbound(LISTENER, 0, version, data, clock.ms);
        //# if org.apache.kafka.raft.RaftRequest$Inbound.completion
        client.handle(request);
        CompletableFuture<RaftResponse.Outbound> response = request.completion;
        //# else
        CompletableFuture<RaftResponse.Outbound> response = client.handle(request).toCompletableFuture();
        //# end
        drive();
        return response;
    }

    void take(Sent sent, ApiMessage data) {
        sent.response.complete(
            new RaftResponse.Inbound(sent.request.correlationId(), data, sent.request.destination()));
        drive();
    }

    /**
     * The fetch, or the vote request to a voter, that the client has to send; null if there is none. If the client still
     * waits for a response, none will come, and its connection breaks.
     */
    Sent next(int key) {
        drive();
        if (!isCurrent(held.get(key)) && awaited.containsKey(key)) {
            Sent broken = awaited.remove(key);
            ApiKeys api = ApiKeys.forId(broken.request.data().apiKey());
            take(broken, RaftUtil.errorResponse(api, Errors.NETWORK_EXCEPTION));
        }
        Sent found = held.remove(key);
        if (!isCurrent(found)) {
            return null;
        }
        awaited.put(key, found);
        return found;
    }

    private boolean isCurrent(Sent sent) {
        return sent != null && sent.state.equals(state());
    }

    /** The epoch and the role; a client forgets its requests when these change. */
    private String state() {
        QuorumState quorum = client.quorum();
        return quorum.epoch() + " " + quorum.isProspective() + quorum.isCandidate() + quorum.isFollower();
    }

    // --- what the client gets from outside -------------------------------------------------------------------------

    @Override
    public int newCorrelationId() {
        return correlation++;
    }

    @Override
    //# if org.apache.kafka.raft.RaftRequest$Outbound.completion
    public void send(RaftRequest.Outbound request) {
        post(request, request.completion);
    }
    //# else
    public java.util.concurrent.CompletionStage<RaftResponse.Inbound> send(RaftRequest.Outbound request) {
        return post(request, new CompletableFuture<>());
    }
    //# end

    /** Keep a fetch or a vote request until a step sends it. Other requests are lost. */
    private CompletableFuture<RaftResponse.Inbound> post(
            RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> response) {
        switch (ApiKeys.forId(request.data().apiKey())) {
            case FETCH -> held.put(FETCH, new Sent(request, response, state()));
            case VOTE -> held.put(request.destination().id(), new Sent(request, response, state()));
            case BEGIN_QUORUM_EPOCH -> announced.put(client.quorum().epoch(), (BeginQuorumEpochRequestData) request.data());
            default -> { }
        }
        return response;
    }

    @Override
    public ListenerName listenerName() {
        return LISTENER;
    }

    @Override
    public void close() {
    }

    @Override
    public <T> CompletableFuture<T> failAfter(long ms) {
        CompletableFuture<T> timer = new CompletableFuture<>();
        if (ms == PARK_MS) {
            parkTimer = timer;
        }
        return timer;
    }

    @Override
    public Optional<ElectionState> readElectionState() {
        return stored;
    }

    @Override
    public void writeElectionState(ElectionState state, KRaftVersion version) {
        stored = Optional.of(state);
    }

    @Override
    public Path path() {
        return Path.of("quorum-state");
    }

    @Override
    public void clear() {
        stored = Optional.empty();
    }
}
