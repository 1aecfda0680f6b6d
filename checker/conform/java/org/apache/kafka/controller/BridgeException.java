package org.apache.kafka.controller;

/** The bridge itself failed: this is no answer of Kafka's. */
final class BridgeException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BridgeException(String message) {
        super(message);
    }
}
