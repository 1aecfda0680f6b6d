package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.BeginQuorumEpochRequestData;
import org.apache.kafka.common.message.BeginQuorumEpochResponseData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.message.VoteResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.controller.BridgeException;
import org.apache.kafka.controller.Observation;
import org.apache.kafka.controller.Walked;

/**
 * Kafka's raft clients, and the messages between them. The clients carry out the actions of the protocol "quorum". An
 * action has the model's name and parameters. Epoch 0 of the model is epoch 1 of Kafka.
 */
public final class BridgedQuorum implements Walked {
    private static final short FETCH_WITH_HWM = 18;
    private static final short VOTE = ApiKeys.VOTE.latestVersion();
    private static final short BEGIN = ApiKeys.BEGIN_QUORUM_EPOCH.latestVersion();

    private final BridgedMember[] members;
    private final int voters;
    /** The version of Fetch that each member sends. */
    private final short[] versions;
    private final Fetch[] requests;
    private final Parked[] parked;
    private final Answer[] responses;
    private final Map<Integer, BeginQuorumEpochRequestData> announced = new HashMap<>();
    private final Vote[][] voteRequests;
    private final Vote[][] voteResponses;
    /** The epochs of the records below the HWM of some leader at some time. */
    private final List<Integer> committed = new ArrayList<>();

    /** A fetch on the wire, in its version. */
    private record Fetch(BridgedMember.Sent sent, short version, FetchRequestData data) {
        FetchRequestData.FetchPartition partition() {
            return data.topics().get(0).partitions().get(0);
        }

        int leader() {
            return sent.request().destination().id();
        }
    }

    private record Parked(Fetch fetch, CompletableFuture<RaftResponse.Outbound> response, CompletableFuture<?> timer) { }

    private record Answer(Fetch fetch, FetchResponseData data, boolean timedOut) {
        FetchResponseData.PartitionData partition() {
            return data.responses().get(0).partitions().get(0);
        }
    }

    /** A vote request on the wire, and its response if there is one. */
    private record Vote(BridgedMember.Sent sent, VoteRequestData request, VoteResponseData response) {
        VoteRequestData.PartitionData asks() {
            return request.topics().get(0).partitions().get(0);
        }
    }

    public BridgedQuorum(JsonNode setup) {
        voters = setup.get("voters").intValue();
        int count = voters + setup.get("observers").intValue();
        members = new BridgedMember[count];
        versions = new short[count];
        requests = new Fetch[count];
        parked = new Parked[count];
        responses = new Answer[count];
        voteRequests = new Vote[voters][voters];
        voteResponses = new Vote[voters][voters];
        for (int m = 0; m < count; m++) {
            members[m] = new BridgedMember(m, voters, announced);
            short newest = (short) Math.min(FETCH_WITH_HWM, ApiKeys.FETCH.latestVersion());
            versions[m] = setup.get("older").get(m).booleanValue() ? FETCH_WITH_HWM - 1 : newest;
        }
        members[0].expireTimer();
        while (!members[0].client.quorum().isLeader()) {
            for (int v = 1; v < voters; v++) {
                ask(0, v);
                answerVote(v, 0);
                takeVote(0, v);
            }
        }
        for (int m = 1; m < count; m++) {
            members[m].follow(1, 0);
            for (int round = 0; round < 2 && setup.get("settled").booleanValue(); round++) {
                sendFetch(m);
                receiveFetch(0, m);
                if (parked[m] != null) {
                    expire(m);
                }
                takeAnswer(m);
            }
        }
        committed();
    }

    @Override
    public void close() {
    }

    /** A message as its receiver reads it. */
    private static ByteBufferAccessor wire(ApiMessage data, short version) {
        return new ByteBufferAccessor(MessageUtil.toVersionPrefixedByteBuffer(version, data).position(Short.BYTES));
    }

    // --- actions ---------------------------------------------------------------------------------------------------

    @Override
    public int run(JsonNode action) throws Exception {
        int f = action.path("f").intValue();
        int m = action.path("m").intValue();
        int c = action.path("c").intValue();
        int v = action.path("v").intValue();
        int leader = action.path("leader").intValue();
        int epoch = action.path("epoch").intValue() + 1;
        int outcome = DONE;
        String name = action.get("name").textValue();
        Object[] from = switch (name) {
            case "receive_fetch", "refuse_fetch" -> requests;
            case "park_timer" -> parked;
            case "take_answer" -> responses;
            case "answer_vote" -> voteRequests[c];
            case "take_vote" -> voteResponses[c];
            default -> null;
        };
        if (from != null && from[name.endsWith("vote") ? v : f] == null) {
            return NOTHING;
        }
        switch (name) {
            case "append" -> {
                KafkaRaftClient<String> client = members[leader].client;
                client.prepareAppend(client.quorum().epoch(), List.of("a record"));
                client.schedulePreparedAppend();
                members[leader].drive();
            }
            case "drain_nothing" -> members[leader].expireAppendTimer();
            case "send_fetch" -> outcome = sendFetch(f);
            case "learn_version" -> versions[m] = FETCH_WITH_HWM;
            case "receive_fetch" -> outcome = receiveFetch(leader, f);
            case "refuse_fetch" -> {
                int error = receiveFetch(requests[f].leader(), f);
                outcome = error <= 0 ? REFUSED : REFUSAL - error;
            }
            case "park_timer" -> expire(f);
            case "take_answer" -> takeAnswer(f);
            case "lose_fetch" -> lose(f);
            case "learn" -> outcome = learn(m, epoch);
            case "hear" -> hear(m, epoch);
            case "restart" -> restart(m);
            case "stand", "give_up" -> members[c].expireTimer();
            case "ask" -> outcome = ask(c, v);
            case "answer_vote" -> answerVote(v, c);
            case "take_vote" -> takeVote(c, v);
            case "lose_vote" -> {
                voteRequests[c][v] = null;
                voteResponses[c][v] = null;
            }
            default -> throw new BridgeException("no action " + name);
        }
        answers(false);
        committed();
        return outcome;
    }

    private int sendFetch(int f) {
        BridgedMember.Sent sent = members[f].next(BridgedMember.FETCH);
        if (sent == null) {
            return NOTHING;
        }
        lose(f);
        requests[f] = new Fetch(sent, versions[f],
            new FetchRequestData(wire(sent.request().data(), versions[f]), versions[f]));
        return DONE;
    }

    private int receiveFetch(int leader, int f) {
        Fetch fetch = requests[f];
        requests[f] = null;
        CompletableFuture<RaftResponse.Outbound> response =
            members[leader].handle(fetch.version, new FetchRequestData(wire(fetch.data, fetch.version), fetch.version));
        if (!response.isDone()) {
            parked[f] = new Parked(fetch, response, members[leader].parkTimer);
            return DONE;
        }
        return answer(f, fetch, response, false);
    }

    /** Send the response to a fetch, and return its error. An answer to an earlier fetch does not overtake a later one. */
    private int answer(int f, Fetch fetch, CompletableFuture<RaftResponse.Outbound> response, boolean timedOut) {
        Answer answer = new Answer(fetch,
            new FetchResponseData(wire(response.join().data(), fetch.version), fetch.version), timedOut);
        int error = answer.partition().errorCode();
        if (error == 0 && (responses[f] == null || responses[f].fetch.partition().currentLeaderEpoch()
                <= fetch.partition().currentLeaderEpoch())) {
            responses[f] = answer;
        }
        return error;
    }

    /** Send the responses of parked fetches that are completed. A member that leads no longer ends its parked fetches. */
    private void answers(boolean timedOut) {
        for (int f = 0; f < members.length; f++) {
            Parked one = parked[f];
            if (one != null && one.response.isDone()) {
                parked[f] = null;
                answer(f, one.fetch, one.response, timedOut);
            } else if (one != null) {
                QuorumState quorum = members[one.fetch.leader()].client.quorum();
                boolean leads = quorum.isLeader() && quorum.epoch() == one.fetch.partition().currentLeaderEpoch();
                parked[f] = leads ? one : null;
            }
        }
    }

    private void expire(int f) {
        parked[f].timer.completeExceptionally(new TimeoutException());
        answers(true);
    }

    private void takeAnswer(int f) {
        Answer answer = responses[f];
        responses[f] = null;
        members[f].take(answer.fetch.sent, answer.data);
    }

    private void lose(int f) {
        requests[f] = null;
        parked[f] = null;
        responses[f] = null;
    }

    private int learn(int m, int epoch) {
        var copy = new BeginQuorumEpochRequestData(wire(announced.get(epoch), BEGIN), BEGIN).setVoterId(-1);
        copy.topics().get(0).partitions().get(0).setVoterDirectoryId(ReplicaKey.NO_DIRECTORY_ID);
        var response = (BeginQuorumEpochResponseData) members[m].handle(BEGIN, copy).join().data();
        return response.topics().get(0).partitions().get(0).errorCode();
    }

    /** Send a member an epoch by a request for a pre-vote, which has no other effect. */
    private void hear(int m, int epoch) {
        ReplicaKey other = ReplicaKey.of((m + 1) % voters, ReplicaKey.NO_DIRECTORY_ID);
        ReplicaKey key = ReplicaKey.of(-1, ReplicaKey.NO_DIRECTORY_ID);
        members[m].handle(VOTE, RaftUtil.singletonVoteRequest(
            members[m].log.log.topicPartition(), null, epoch, other, key, 0, 0, true));
    }

    private void restart(int m) {
        members[m].start();
        lose(m);
        for (int v = 0; v < voters && m < voters; v++) {
            voteRequests[m][v] = null;
            voteResponses[m][v] = null;
        }
    }

    private int ask(int c, int v) {
        BridgedMember.Sent sent = members[c].next(v);
        if (sent == null) {
            return NOTHING;
        }
        voteResponses[c][v] = null;
        voteRequests[c][v] = new Vote(sent, new VoteRequestData(wire(sent.request().data(), VOTE), VOTE), null);
        return DONE;
    }

    private void answerVote(int v, int c) {
        Vote vote = voteRequests[c][v];
        voteRequests[c][v] = null;
        ApiMessage response =
            members[v].handle(VOTE, new VoteRequestData(wire(vote.request, VOTE), VOTE)).join().data();
        voteResponses[c][v] = new Vote(vote.sent, vote.request, new VoteResponseData(wire(response, VOTE), VOTE));
    }

    private void takeVote(int c, int v) {
        Vote vote = voteResponses[c][v];
        voteResponses[c][v] = null;
        members[c].take(vote.sent, vote.response);
    }

    // --- the observation -------------------------------------------------------------------------------------------

    private void committed() {
        for (BridgedMember member : members) {
            QuorumState quorum = member.client.quorum();
            long end = quorum.isLeader() ? hwm(quorum) : 0;
            while (committed.size() < end) {
                committed.add(member.log.epochs.get(committed.size()) - 1);
            }
        }
    }

    private static int hwm(QuorumState quorum) {
        return quorum.highWatermark().map(known -> (int) known.offset()).orElse(-1);
    }

    private static int mask(Set<Integer> members) {
        return members.stream().mapToInt(member -> 1 << member).sum();
    }

    @Override
    public Observation observe() {
        Observation seen = new Observation();
        for (int m = 0; m < members.length; m++) {
            observe(members[m], m, seen);
            observeFetch(m, seen);
        }
        for (int c = 0; c < voters; c++) {
            for (int v = 0; v < voters; v++) {
                observeRequest(voteRequests[c][v], seen, c, v);
                observeAnswer(voteResponses[c][v], seen, c, v);
            }
        }
        observeLog("committed", committed, seen);
        return seen;
    }

    private static void observeLog(String name, List<Integer> epochs, Observation seen, int... places) {
        seen.put(name + ".length", epochs.size(), places);
        for (int offset = 0; offset < epochs.size(); offset++) {
            int[] at = Arrays.copyOf(places, places.length + 1);
            at[places.length] = offset;
            seen.put(name + ".epoch", epochs.get(offset), at);
        }
    }

    private void observe(BridgedMember member, int m, Observation seen) {
        QuorumState quorum = member.client.quorum();
        OptionalInt leader = quorum.isResigned() ? OptionalInt.empty() : quorum.leaderId();
        seen.put("epoch", quorum.epoch() - 1, m);
        seen.put("leader", leader.orElse(-1), m);
        seen.put("ballot", quorum.isProspective() ? 1 : quorum.isCandidate() ? 2 : 0, m);
        observeLog("log", member.log.epochs.stream().map(epoch -> epoch - 1).toList(), seen, m);
        seen.put("hwm", hwm(quorum), m);
        for (int v = 0; v < voters && quorum.isLeader(); v++) {
            var state = quorum.leaderStateOrThrow().voterStates().get(v);
            seen.put("fetched", state.endOffset().map(end -> (int) end.offset()).orElse(-1), m, v);
        }
        seen.put("voted", quorum.votedKey().map(ReplicaKey::id).orElse(-1), m);
        var election = quorum.isNomineeState() ? quorum.nomineeStateOrThrow().epochElection() : null;
        seen.put("granted", election == null ? 0 : mask(election.grantingVoters()), m);
        seen.put("denied", election == null ? 0 : mask(election.rejectingVoters()), m);
        try {
            seen.put("heard", quorum.isFollower()
                && (Boolean) BridgedMember.field(quorum.followerStateOrThrow(), "hasFetchedFromLeader"), m);
        } catch (ReflectiveOperationException changed) {
            throw new BridgeException(changed.toString());
        }
    }

    private void observeFetch(int f, Observation seen) {
        Fetch request = requests[f];
        observe("fetch", request, f, seen);
        if (request != null) {
            seen.put("fetch.last_epoch", request.partition().lastFetchedEpoch() - 1, f);
            //# if org.apache.kafka.common.message.FetchRequestData$FetchPartition.highWatermark
            long hwm = request.partition().highWatermark();
            seen.put("fetch.hwm", hwm == Long.MAX_VALUE ? -2 : (int) hwm, f);
            //# else
            seen.put("fetch.hwm", -2, f);
            //# end
        }
        observe("parked", parked[f] == null ? null : parked[f].fetch, f, seen);
        Answer answer = responses[f];
        seen.put("answer", answer != null, f);
        if (answer != null) {
            var partition = answer.partition();
            var diverging = partition.divergingEpoch();
            seen.put("answer.epoch", partition.currentLeader().leaderEpoch() - 1, f);
            int epoch = -1;
            for (RecordBatch batch : ((MemoryRecords) partition.records()).batches()) {
                epoch = batch.partitionLeaderEpoch() - 1;
            }
            seen.put("answer.record", epoch, f);
            seen.put("answer.hwm", (int) partition.highWatermark(), f);
            seen.put("answer.diverging", diverging.epoch() >= 0, f);
            seen.put("answer.end_epoch", diverging.epoch() < 0 ? -1 : diverging.epoch() - 1, f);
            seen.put("answer.end", Math.max(0, (int) diverging.endOffset()), f);
            seen.put("answer.timed_out", answer.timedOut, f);
        }
    }

    private static void observe(String name, Fetch fetch, int f, Observation seen) {
        seen.put(name, fetch != null, f);
        if (fetch != null) {
            seen.put(name + ".leader", fetch.leader(), f);
            seen.put(name + ".epoch", fetch.partition().currentLeaderEpoch() - 1, f);
            seen.put(name + ".offset", (int) fetch.partition().fetchOffset(), f);
        }
    }

    private static void observeRequest(Vote vote, Observation seen, int... places) {
        seen.put("vote_request", vote != null, places);
        if (vote != null) {
            seen.put("vote_request.epoch", vote.asks().replicaEpoch() - 1, places);
            seen.put("vote_request.pre", vote.asks().preVote(), places);
            seen.put("vote_request.last_epoch", vote.asks().lastOffsetEpoch() - 1, places);
            seen.put("vote_request.offset", (int) vote.asks().lastOffset(), places);
        }
    }

    private static void observeAnswer(Vote vote, Observation seen, int... places) {
        seen.put("vote_answer", vote != null, places);
        if (vote != null) {
            var answer = vote.response.topics().get(0).partitions().get(0);
            seen.put("vote_answer.asked", vote.asks().replicaEpoch() - 1, places);
            seen.put("vote_answer.pre", vote.asks().preVote(), places);
            seen.put("vote_answer.epoch", answer.leaderEpoch() - 1, places);
            seen.put("vote_answer.leader", answer.leaderId(), places);
            seen.put("vote_answer.granted", answer.voteGranted(), places);
        }
    }
}
