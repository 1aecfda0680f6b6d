package org.apache.kafka.controller;

import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import scala.Option;

/** Schedulers, timers and purgatories that never run anything. */
final class Idle implements Scheduler, Timer {
    static final Idle IDLE = new Idle();

    private Idle() {
    }

    /** A purgatory without a thread; nothing waits in it. */
    static <T extends DelayedOperation> Option<DelayedOperationPurgatory<T>> purgatory() {
        return Option.apply(new DelayedOperationPurgatory<>("idle", IDLE, 0, Integer.MAX_VALUE, false, false));
    }

    @Override
    public void startup() {
    }

    @Override
    public void shutdown() {
    }

    @Override
    public void resizeThreadPool(int size) {
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
        return new Never();
    }

    @Override
    public void add(TimerTask task) {
    }

    @Override
    public boolean advanceClock(long timeoutMs) {
        return false;
    }

    @Override
    public int size() {
        return 0;
    }

    @Override
    public void close() {
    }

    /** A task that is never run. */
    private static final class Never implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return Long.MAX_VALUE;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }

        @Override
        public boolean cancel(boolean interrupt) {
            return true;
        }

        @Override
        public boolean isCancelled() {
            return true;
        }

        @Override
        public boolean isDone() {
            return true;
        }

        @Override
        public Void get() {
            return null;
        }

        @Override
        public Void get(long timeout, TimeUnit unit) {
            return null;
        }
    }
}
