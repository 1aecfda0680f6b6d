package org.apache.kafka.controller;

/** A failure of the bridge, as opposed to an answer of Kafka. */
final class BridgeException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BridgeException(String message) {
        super(message);
    }
}
