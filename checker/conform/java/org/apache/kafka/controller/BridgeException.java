package org.apache.kafka.controller;

/** A failure of the bridge, as opposed to an answer of Kafka. */
public final class BridgeException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public BridgeException(String message) {
        super(message);
    }
}
