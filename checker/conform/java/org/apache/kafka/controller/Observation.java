package org.apache.kafka.controller;

import java.util.LinkedHashMap;
import java.util.Map;

/** A state as named numbers. Python compares the numbers by their names. */
public final class Observation {
    private final Map<String, Integer> fields = new LinkedHashMap<>();

    /** Add a field: its name, such as {@code fetch.offset[1]}, has the numbers of its broker or record in brackets. */
    public void put(String name, int value, int... places) {
        StringBuilder whole = new StringBuilder(name);
        for (int place : places) {
            whole.append('[').append(place).append(']');
        }
        fields.put(whole.toString(), value);
    }

    public void put(String name, boolean value, int... places) {
        put(name, value ? 1 : 0, places);
    }

    public Map<String, Integer> fields() {
        return fields;
    }

    /** The fields as JSON. Names need no escapes. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("{");
        fields.forEach((name, value) ->
            text.append(text.length() == 1 ? "\"" : ",\"").append(name).append("\":").append(value));
        return text.append('}').toString();
    }
}
