package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Records;
//# if org.apache.kafka.raft.OffsetAndEpoch
//# else
import org.apache.kafka.server.common.OffsetAndEpoch;
//# end
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/** A log in memory without snapshots. Each batch has one record, and a read returns one batch. */
//# if org.apache.kafka.raft.ReplicatedLog
final class BridgedLog implements ReplicatedLog {
//# else
final class BridgedLog implements RaftLog {
//# end
    private static final TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

    final List<MemoryRecords> batches = new ArrayList<>();
    final List<Integer> epochs = new ArrayList<>();
    private LogOffsetMetadata highWatermark = new LogOffsetMetadata(0);

    private LogAppendInfo append(Records records) {
        int first = epochs.size();
        for (MutableRecordBatch batch : ((MemoryRecords) records).batches()) {
            if (batch.baseOffset() != epochs.size() || batch.lastOffset() != epochs.size()) {
                throw new IllegalArgumentException("a batch with offset " + batch.baseOffset() + " at " + epochs.size());
            }
            ByteBuffer copy = ByteBuffer.allocate(batch.sizeInBytes());
            batch.writeTo(copy);
            copy.flip();
            batches.add(MemoryRecords.readableRecords(copy));
            epochs.add(batch.partitionLeaderEpoch());
        }
        return new LogAppendInfo(first, epochs.size() - 1);
    }

    @Override
    public LogAppendInfo appendAsLeader(Records records, int epoch) {
        return append(records);
    }

    @Override
    public LogAppendInfo appendAsFollower(Records records, int epoch) {
        return append(records);
    }

    @Override
    public LogFetchInfo read(long offset, Isolation isolation
            //# if org.apache.kafka.raft.RaftLog
            , int maxBytes
            //# end
    ) {
        long end = isolation == Isolation.COMMITTED ? highWatermark.offset() : epochs.size();
        Records found = offset < end ? batches.get((int) offset) : MemoryRecords.EMPTY;
        return new LogFetchInfo(found, new LogOffsetMetadata(offset));
    }

    @Override
    public int lastFetchedEpoch() {
        return epochs.isEmpty() ? 0 : epochs.get(epochs.size() - 1);
    }

    /** The last epoch in the log up to this one, and its end. An epoch before all others ends at the log's start. */
    @Override
    public OffsetAndEpoch endOffsetForEpoch(int epoch) {
        int end = epochs.size();
        while (end > 0 && epochs.get(end - 1) > epoch) {
            end--;
        }
        return new OffsetAndEpoch(end, end == 0 ? epoch : epochs.get(end - 1));
    }

    @Override
    public LogOffsetMetadata endOffset() {
        return new LogOffsetMetadata(epochs.size());
    }

    @Override
    public LogOffsetMetadata highWatermark() {
        return highWatermark;
    }

    @Override
    public long startOffset() {
        return 0;
    }

    @Override
    public void initializeLeaderEpoch(int epoch) {
    }

    @Override
    public void truncateTo(long offset) {
        batches.subList((int) offset, batches.size()).clear();
        epochs.subList((int) offset, epochs.size()).clear();
    }

    @Override
    public boolean truncateToLatestSnapshot() {
        return false;
    }

    @Override
    public void updateHighWatermark(LogOffsetMetadata offset) {
        highWatermark = offset;
    }

    @Override
    public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
        return false;
    }

    @Override
    public void flush(boolean force) {
    }

    @Override
    public boolean maybeClean() {
        return false;
    }

    @Override
    public TopicPartition topicPartition() {
        return PARTITION;
    }

    @Override
    public Uuid topicId() {
        return Uuid.METADATA_TOPIC_ID;
    }

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshot(OffsetAndEpoch id) {
        return Optional.empty();
    }

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id) {
        return Optional.empty();
    }

    @Override
    public Optional<RawSnapshotReader> readSnapshot(OffsetAndEpoch id) {
        return Optional.empty();
    }

    @Override
    public Optional<RawSnapshotReader> latestSnapshot() {
        return Optional.empty();
    }

    @Override
    public Optional<OffsetAndEpoch> latestSnapshotId() {
        return Optional.empty();
    }

    @Override
    public Optional<OffsetAndEpoch> earliestSnapshotId() {
        return Optional.empty();
    }

    @Override
    public void onSnapshotFrozen(OffsetAndEpoch id) {
    }
}
