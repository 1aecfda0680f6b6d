package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.controller.BridgedController.Outcome;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Reads lines of JSON on standard input and answers each with one on standard output.
 *
 * <ul>
 * <li>{@code {"scenario": …, "operations": […]}}: the initial state of a controller, and operations, numbered from 0.
 * <li>{@code {"try": [[…], …]}}: a path of operation numbers for each state. A fresh controller takes the path; then it
 * tries every operation and reverts it.
 * <li>{@code {"explain": {"path": […], "op": …}}}: one operation after a path, both in full. The answer has the records.
 * <li>{@code {"walk": [[…], …]}}: paths of action numbers for a whole cluster.
 * </ul>
 */
public final class Bridge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JSON.getNodeFactory();

    private final QuorumControllerMetrics metrics = Versions.metrics();
    private JsonNode scenario;
    private JsonNode[] operations;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        Bridge bridge = new Bridge();
        out.println(hello());
        out.flush();
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = bridge.answer(JSON.readTree(line));
            } catch (Throwable thrown) {
                answer = NODES.objectNode().put("bridge", thrown.toString() + at(thrown)).toString();
            }
            out.println(answer);
            out.flush();
        }
    }

    private static String at(Throwable thrown) {
        StackTraceElement[] trace = thrown.getStackTrace();
        return trace.length == 0 ? "" : " at " + trace[0];
    }

    private static String hello() {
        ObjectNode errors = NODES.objectNode();
        for (Errors error : Errors.values()) {
            errors.put(error.name(), error.code());
        }
        ObjectNode hello = NODES.objectNode();
        hello.set("errors", errors);
        hello.set("lacking", JSON.valueToTree(Versions.lacking()));
        hello.put("kafka", AppInfoParser.getVersion());
        hello.put("commit", AppInfoParser.getCommitId());
        hello.put("metadataVersion", MetadataVersion.latestProduction().version());
        return hello.toString();
    }

    private String answer(JsonNode line) throws Exception {
        if (line.has("try")) {
            return tryAll(line.get("try"));
        }
        if (line.has("walk")) {
            return walkAll(line.get("walk"), line.has("logs"));
        }
        if (line.has("scenario")) {
            scenario = line.get("scenario");
            List<JsonNode> given = new ArrayList<>();
            line.get("operations").forEach(given::add);
            operations = given.toArray(new JsonNode[0]);
            return NODES.objectNode().put("operations", operations.length).toString();
        }
        if (line.has("explain")) {
            return tell(line.get("explain")).toString();
        }
        throw new BridgeException("a line that says nothing known");
    }

    private BridgedController fresh(JsonNode setup) {
        BridgedController controller = new BridgedController(
            setup.get("brokers").intValue(), setup.get("minIsr").intValue(), metrics);
        controller.begin(setup);
        controller.forgetSessions();
        return controller;
    }

    // --- many operations from one state ------------------------------------------------------------------------

    /** The distinct observations of a line of answers, by number. */
    private static final class Seen {
        private final Map<String, Integer> numbers = new HashMap<>();
        private final StringBuilder text = new StringBuilder();

        int number(BridgedController controller) {
            return number(Arrays.toString(controller.observe()));
        }

        int number(String numbers) {
            Integer known = this.numbers.get(numbers);
            if (known == null) {
                known = this.numbers.size();
                this.numbers.put(numbers, known);
                text.append(known == 0 ? "" : ",").append(numbers);
            }
            return known;
        }
    }

    private String tryAll(JsonNode paths) {
        Seen seen = new Seen();
        StringBuilder answers = new StringBuilder();
        for (JsonNode path : paths) {
            BridgedController controller = fresh(scenario);
            BridgeOperations to = new BridgeOperations(controller);
            for (JsonNode number : path) {
                to.run(operations[number.intValue()]);
                controller.forgetSessions();
            }
            int before = seen.number(controller);
            answers.append(answers.isEmpty() ? "" : ",").append(before);
            BridgedController.Mark mark = controller.new Mark();
            for (JsonNode operation : operations) {
                Outcome outcome = to.run(operation);
                boolean same = outcome.records.isEmpty() && !operation.has("environment");
                answers.append(',').append(outcome.error).append(',').append(same ? before : seen.number(controller));
                mark.revert();
            }
        }
        return "{\"seen\":[" + seen.text + "],\"answers\":[" + answers + "]}";
    }

    // --- walks of a whole cluster ------------------------------------------------------------------------------

    /**
     * Take each path in a fresh cluster. The answer to a path: the number of the first observation; then for each action
     * its result and the number of the observation after it. A path ends at an action that is not done. {@code withLogs}
     * adds the logs at the end of each path.
     */
    private String walkAll(JsonNode paths, boolean withLogs) throws Exception {
        Seen seen = new Seen();
        StringBuilder answers = new StringBuilder();
        List<List<List<Integer>>> logs = new ArrayList<>();
        for (JsonNode path : paths) {
            answers.append(answers.isEmpty() ? "[" : ",[");
            try (BridgedCluster cluster = new BridgedCluster(scenario, metrics)) {
                answers.append(seen.number(cluster.observe().toString()));
                for (JsonNode number : path) {
                    int outcome = cluster.run(operations[number.intValue()]);
                    answers.append(',').append(outcome).append(',').append(seen.number(cluster.observe().toString()));
                    if (outcome != BridgedCluster.DONE) {
                        break;
                    }
                }
                if (withLogs) {
                    logs.add(cluster.logs());
                }
            }
            answers.append(']');
        }
        return "{\"seen\":[" + seen.text + "],\"walks\":[" + answers + "],\"logs\":" + logs + "}";
    }

    // --- one operation in full -----------------------------------------------------------------------------

    /** The answer to a line {@code {"explain": …}}; tests that conform writes call this method. */
    static JsonNode explained(String request) throws IOException {
        return new Bridge().tell(JSON.readTree(request));
    }

    private ObjectNode tell(JsonNode request) {
        BridgedController controller = fresh(request.get("scenario"));
        BridgeOperations to = new BridgeOperations(controller);
        for (JsonNode operation : request.get("path")) {
            to.run(operation);
            controller.forgetSessions();
        }
        ObjectNode answer = NODES.objectNode();
        answer.set("before", JSON.valueToTree(controller.observe()));
        Outcome outcome = to.run(request.get("op"));
        answer.set("after", JSON.valueToTree(controller.observe()));
        answer.put("error", outcome.error);
        if (outcome.thrown != null) {
            answer.put("exception", outcome.thrown.getClass().getSimpleName());
            answer.put("message", outcome.thrown.getMessage());
        }
        ArrayNode records = answer.putArray("records");
        for (ApiMessageAndVersion record : outcome.records) {
            ObjectNode written = records.addObject();
            written.put("type", MetadataRecordType.fromId(record.message().apiKey()).name());
            written.put("version", record.version());
            written.set("data", MetadataJsonConverters.writeJson(record.message(), record.version()));
        }
        return answer;
    }
}
