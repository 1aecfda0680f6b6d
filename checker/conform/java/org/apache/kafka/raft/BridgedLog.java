package org.apache.kafka.raft;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
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

/** A log in memory without snapshots. A batch has one record and is appended at its offset. A read returns one batch. */
final class BridgedLog implements InvocationHandler {
    private static final TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

    final List<MemoryRecords> batches = new ArrayList<>();
    /** The epoch of each record. */
    final List<Integer> epochs = new ArrayList<>();
    //# if org.apache.kafka.raft.ReplicatedLog
    final ReplicatedLog log = (ReplicatedLog) proxy(ReplicatedLog.class);
    //# else
    final RaftLog log = (RaftLog) proxy(RaftLog.class);
    //# end

    private Object proxy(Class<?> type) {
        return java.lang.reflect.Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, this);
    }

    @Override
    public Object invoke(Object log, Method method, Object[] arguments) throws Throwable {
        int end = epochs.size();
        return switch (method.getName()) {
            case "appendAsLeader", "appendAsFollower" -> append(end, (MemoryRecords) arguments[0]);
            case "read" -> {
                int offset = ((Long) arguments[0]).intValue();
                Records found = offset < end ? batches.get(offset) : MemoryRecords.EMPTY;
                yield new LogFetchInfo(found, new LogOffsetMetadata(offset));
            }
            case "lastFetchedEpoch" -> end == 0 ? 0 : epochs.get(end - 1);
            case "endOffsetForEpoch" -> endOffsetForEpoch(end, (Integer) arguments[0]);
            case "endOffset" -> new LogOffsetMetadata(end);
            case "startOffset" -> 0L;
            case "truncateTo" -> truncateTo(((Long) arguments[0]).intValue());
            case "topicPartition" -> PARTITION;
            case "topicId" -> Uuid.METADATA_TOPIC_ID;
            default -> method.isDefault() ? InvocationHandler.invokeDefault(log, method, arguments)
                : method.getReturnType() == boolean.class ? (Object) false
                : method.getReturnType() == Optional.class ? Optional.empty() : null;
        };
    }

    private LogAppendInfo append(int first, MemoryRecords records) {
        for (MutableRecordBatch batch : records.batches()) {
            if (batch.baseOffset() == epochs.size() && batch.lastOffset() == epochs.size()) {
                ByteBuffer copy = ByteBuffer.allocate(batch.sizeInBytes());
                batch.writeTo(copy);
                batches.add(MemoryRecords.readableRecords(copy.flip()));
                epochs.add(batch.partitionLeaderEpoch());
            }
        }
        return new LogAppendInfo(first, epochs.size() - 1);
    }

    /** The last epoch in the log up to this one, and its end. An epoch before all others ends at the log's start. */
    private OffsetAndEpoch endOffsetForEpoch(int end, int epoch) {
        while (end > 0 && epochs.get(end - 1) > epoch) {
            end--;
        }
        return new OffsetAndEpoch(end, end == 0 ? epoch : epochs.get(end - 1));
    }

    private Object truncateTo(int offset) {
        batches.subList(offset, batches.size()).clear();
        epochs.subList(offset, epochs.size()).clear();
        return null;
    }
}
