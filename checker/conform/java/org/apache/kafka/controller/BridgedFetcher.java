package org.apache.kafka.controller;

import java.util.Map;
import java.util.Optional;
import java.util.Set;
import kafka.log.LogManager;
import kafka.server.DelayedFetch;
import kafka.server.DelayedProduce;
import kafka.server.FailedPartitions;
import kafka.server.KafkaConfig;
import kafka.server.LocalLeaderEndPoint;
import kafka.server.QuotaFactory;
import kafka.server.ReplicaFetcherManager;
import kafka.server.ReplicaFetcherThread;
import kafka.server.ReplicaManager;
import kafka.server.ReplicationQuotaManager;
import kafka.server.metadata.KRaftMetadataCache;
import kafka.server.share.DelayedShareFetch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.DelayedActionQueue;
import org.apache.kafka.server.LeaderEndPoint;
import org.apache.kafka.server.PartitionFetchState;
import org.apache.kafka.server.ReplicaFetch;
import org.apache.kafka.server.ResultWithPartitions;
import org.apache.kafka.server.common.DirectoryEventHandler;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.network.BrokerEndPoint;
import org.apache.kafka.server.purgatory.DelayedDeleteRecords;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.purgatory.DelayedRemoteFetch;
import org.apache.kafka.server.purgatory.DelayedRemoteListOffsets;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import scala.Option;

/** Kafka's fetcher thread, which is never started: {@link #send} builds a fetch, and {@link #take} handles its answer. */
final class BridgedFetcher extends ReplicaFetcherThread {
    private final Leader end;

    private BridgedFetcher(Leader end, KafkaConfig config, FailedPartitions failed, ReplicaManager manager) {
        super("fetcher", end, config, failed, manager, QuotaFactory.UNBOUNDED_QUOTA, "");
        this.end = end;
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

    void take(FetchRequest.PartitionData sent, FetchResponseData.PartitionData answer) {
        end.answer = answer;
        processFetchRequest(Map.of(BridgedBroker.PARTITION, sent), null);
    }

    int leaderId() {
        return end.source.id();
    }

    /** The leader of a fetcher: a broker in this process. */
    private static final class Leader implements LeaderEndPoint {
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

        @Override
        public boolean isTruncationOnFetchSupported() {
            return true;
        }

        @Override
        public void initiateClose() {
        }

        @Override
        public void close() {
        }

        @Override
        public BrokerEndPoint brokerEndPoint() {
            return source;
        }

        @Override
        public Map<TopicPartition, FetchResponseData.PartitionData> fetch(FetchRequest.Builder request) {
            return Map.of(BridgedBroker.PARTITION, answer);
        }

        @Override
        public OffsetAndEpoch fetchEarliestOffset(TopicPartition partition, int leaderEpoch) {
            return now().fetchEarliestOffset(partition, leaderEpoch);
        }

        @Override
        public OffsetAndEpoch fetchLatestOffset(TopicPartition partition, int leaderEpoch) {
            return now().fetchLatestOffset(partition, leaderEpoch);
        }

        @Override
        public OffsetAndEpoch fetchEarliestLocalOffset(TopicPartition partition, int leaderEpoch) {
            return now().fetchEarliestLocalOffset(partition, leaderEpoch);
        }

        @Override
        public Map<TopicPartition, OffsetForLeaderEpochResponseData.EpochEndOffset> fetchEpochEndOffsets(
                Map<TopicPartition, OffsetForLeaderEpochRequestData.OffsetForLeaderPartition> partitions) {
            return now().fetchEpochEndOffsets(partitions);
        }

        /** Build a fetch of one batch, as RemoteLeaderEndPoint does, without sending it. */
        @Override
        public ResultWithPartitions<Optional<ReplicaFetch>> buildFetch(
                Map<TopicPartition, PartitionFetchState> partitions) {
            PartitionFetchState state = partitions.get(BridgedBroker.PARTITION);
            if (state != null && state.isReadyForFetch()) {
                built = new FetchRequest.PartitionData(
                    state.topicId().orElse(org.apache.kafka.common.Uuid.ZERO_UUID), state.fetchOffset(),
                    owner.log().logStartOffset(), 1, Optional.of(state.currentLeaderEpoch()),
                    state.lastFetchedEpoch());
            }
            return new ResultWithPartitions<>(Optional.empty(), Set.of());
        }
    }

    /** Kafka's ReplicaManager with fetchers of this class. */
    static final class Manager extends ReplicaManager {
        private static final QuotaFactory.QuotaManagers QUOTAS =
            new QuotaFactory.QuotaManagers(null, null, null, null, null, null, null, Optional.empty());
        private static final Option<DelayedOperationPurgatory<DelayedProduce>> PRODUCE = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedFetch>> FETCH = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedDeleteRecords>> DELETE = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedRemoteFetch>> REMOTE_FETCH = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedRemoteListOffsets>> REMOTE_LIST = Idle.purgatory();
        private static final Option<DelayedOperationPurgatory<DelayedShareFetch>> SHARE = Idle.purgatory();

        Manager(KafkaConfig config, Metrics metrics, Time time, LogManager logs, KRaftMetadataCache cache,
                LogDirFailureChannel failures, BridgedBroker owner) {
            super(config, metrics, time, Idle.IDLE, logs, Option.empty(), QUOTAS, cache, failures, owner,
                BridgedBroker.STATS, PRODUCE, FETCH, DELETE, REMOTE_FETCH, REMOTE_LIST, SHARE, () -> owner.epoch,
                Option.empty(), DirectoryEventHandler.NOOP, new DelayedActionQueue());
        }

        @Override
        public ReplicaFetcherManager createReplicaFetcherManager(
                Metrics metrics, Time time, ReplicationQuotaManager quota) {
            BridgedBroker owner = (BridgedBroker) alterPartitionManager();
            ReplicaManager manager = this;
            return new ReplicaFetcherManager(config(), this, metrics, time, quota,
                    () -> manager.metadataCache().metadataVersion(), () -> owner.epoch) {
                @Override
                public ReplicaFetcherThread createFetcherThread(int fetcher, BrokerEndPoint source) {
                    return new BridgedFetcher(
                        new Leader(source, manager.config(), owner), manager.config(), failedPartitions(), manager);
                }
            };
        }
    }
}
