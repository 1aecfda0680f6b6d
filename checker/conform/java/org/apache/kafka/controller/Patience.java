package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;

/** Ends the process if one operation takes too long, after a line that says which. */
final class Patience {
    private static final int WAITS = 15;
    /** The path in the line of the bridge, and the operation or step; −1 while the path's state is reached. */
    private static volatile int[] now = {0, -1};
    private static volatile boolean busy = false;

    private Patience() {
    }

    static void begin(int path, int operation) {
        now = new int[] {path, operation};
        busy = true;
    }

    static void rest() {
        busy = false;
    }

    /**
     * Watch the calling thread. An operation may take this many seconds of its processor time, or wait for another thread
     * for {@code WAITS} times as long.
     */
    static void watch(int seconds, PrintStream out) {
        Thread watched = Thread.currentThread();
        Thread watcher = new Thread(() -> {
            int[] known = null;
            long cpu = 0;
            long time = 0;
            while (true) {
                try {
                    Thread.sleep(200);
                } catch (InterruptedException never) {
                    return;
                }
                long usedNow = ManagementFactory.getThreadMXBean().getThreadCpuTime(watched.getId());
                if (!busy || now != known) {
                    known = now;
                    cpu = usedNow;
                    time = System.nanoTime();
                } else if (usedNow - cpu > seconds * 1_000_000_000L
                        || System.nanoTime() - time > WAITS * seconds * 1_000_000_000L) {
                    StackTraceElement[] trace = watched.getStackTrace();
                    out.println(JsonNodeFactory.instance.objectNode().put("waits", trace.length == 0 ? "" : trace[0] + "").
                        put("path", known[0]).put("operation", known[1]));
                    out.flush();
                    System.exit(3);
                }
            }
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
