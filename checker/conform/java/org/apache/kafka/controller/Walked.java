package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;

/** A system of Kafka's own code that takes the steps of a walk. */
public interface Walked extends AutoCloseable {
    /** The result of a step: it was done, nobody could do it, or Kafka refused it. */
    int DONE = 0;
    int NOTHING = -1;
    int REFUSED = -2;
    /** A fetch is refused, as it should be: the result is this number minus the error. */
    int REFUSAL = -1000;

    /** Carry out a step. */
    int run(JsonNode step) throws Exception;

    /** The state as named numbers. */
    Observation observe();
}
