package org.apache.kafka.controller;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Optional;
import kafka.cluster.Partition;
import kafka.server.FailedPartitions;
import kafka.server.KafkaConfig;
import kafka.server.LocalLeaderEndPoint;
import kafka.server.QuotaFactory;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.NotLeaderOrFollowerException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.server.LeaderEndPoint;
import org.apache.kafka.server.PartitionFetchState;
import org.apache.kafka.server.network.BrokerEndPoint;

/** Kafka's fetcher thread, which is never started: {@link #send} builds a fetch, and {@link #take} handles its answer. */
final class BridgedFetcher extends Versions.Fetcher {
    private final Leader end;

    private BridgedFetcher(Leader end, KafkaConfig config, FailedPartitions failed, ReplicaManager manager) {
        super(end.asEndPoint(), config, failed, manager);
        this.end = end;
    }

    static BridgedFetcher of(
            BrokerEndPoint source, FailedPartitions failed, ReplicaManager manager, BridgedBroker owner) {
        return new BridgedFetcher(new Leader(source, manager.config(), owner), manager.config(), failed, manager);
    }

    @Override
    public void start() {
    }

    /** The fetch that the thread would send now; null if it is not ready to fetch. */
    FetchRequest.PartitionData send() {
        end.built = null;
        doWork();
        return end.built;
    }

    void take(FetchRequest.PartitionData sent, FetchResponseData.PartitionData answer)
            throws ReflectiveOperationException {
        end.answer = answer;
        process(Map.of(BridgedBroker.PARTITION, sent));
    }

    int leaderId() {
        return end.source.id();
    }

    /** The leader of a fetcher: a broker in this process. It handles the calls of a {@link LeaderEndPoint}. */
    private static final class Leader implements InvocationHandler {
        private final BrokerEndPoint source;
        private final KafkaConfig config;
        private final BridgedBroker owner;
        private FetchRequest.PartitionData built;
        private FetchResponseData.PartitionData answer;

        Leader(BrokerEndPoint source, KafkaConfig config, BridgedBroker owner) {
            this.source = source;
            this.config = config;
            this.owner = owner;
        }

        /** Kafka's own LeaderEndPoint for a broker of the same process. */
        private LeaderEndPoint now() {
            BridgedBroker leader = owner.peer(source.id());
            if (!leader.up) {
                throw new org.apache.kafka.common.errors.DisconnectException("broker " + source.id() + " is down");
            }
            return new LocalLeaderEndPoint(source, config, leader.replicas, QuotaFactory.UNBOUNDED_QUOTA);
        }

        private LeaderEndPoint asEndPoint() {
            return (LeaderEndPoint) Proxy.newProxyInstance(
                Leader.class.getClassLoader(), new Class<?>[] {LeaderEndPoint.class}, this);
        }

        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            switch (method.getName()) {
                case "isTruncationOnFetchSupported":
                    return true;
                case "brokerEndPoint":
                    return source;
                case "fetch":
                    return Versions.as(method.getReturnType(), Map.of(BridgedBroker.PARTITION, answer));
                case "buildFetch":
                    build(Versions.<TopicPartition, PartitionFetchState>map(arguments[0]).get(BridgedBroker.PARTITION));
                    return Versions.noFetch();
                case "initiateClose", "close":
                    return null;
                default:
                    Object target = method.getDeclaringClass() == Object.class ? this : now();
                    if (arguments != null && arguments.length == 2 && arguments[1] instanceof Integer epoch) {
                        leads(epoch);
                    }
                    try {
                        return method.invoke(target, arguments);
                    } catch (InvocationTargetException wrong) {
                        throw wrong.getCause();
                    }
            }
        }

        /** Check the leader epoch, as Kafka does for a request of another broker (ListOffsets). */
        private void leads(int epoch) {
            Partition partition = owner.peer(source.id()).partition();
            if (partition == null) {
                throw new NotLeaderOrFollowerException("no replica");
            }
            partition.fetchOffsetSnapshot(Optional.of(epoch), true);
        }

        /** Build a fetch of one batch, as RemoteLeaderEndPoint does, without sending it. */
        private void build(PartitionFetchState state) {
            if (state != null && state.isReadyForFetch()) {
                built = new FetchRequest.PartitionData(
                    Versions.<Uuid>optional(state.topicId()).orElse(Uuid.ZERO_UUID), state.fetchOffset(),
                    owner.logs.log().logStartOffset(), 1, Optional.of(state.currentLeaderEpoch()),
                    Versions.optional(state.lastFetchedEpoch()));
            }
        }
    }
}
