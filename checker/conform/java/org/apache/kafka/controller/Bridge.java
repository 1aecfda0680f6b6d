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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Stream;
import org.apache.kafka.common.message.AlterPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.AlterPartitionResponseData;
import org.apache.kafka.common.message.AssignReplicasToDirsResponseData;
import org.apache.kafka.common.message.BrokerHeartbeatResponseData;
import org.apache.kafka.common.message.BrokerRegistrationResponseData;
import org.apache.kafka.common.message.ElectLeadersResponseData;
import org.apache.kafka.common.message.UnregisterBrokerResponseData;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.controller.BridgedController.Outcome;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.raft.BridgedQuorum;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Reads lines of JSON on standard input and answers each with one on standard output.
 *
 * <ul>
 * <li>{@code {"scenario": …, "operations": […]}}: the initial state of a controller, and operations, numbered from 0.
 * <li>{@code {"try": [[…], …]}}: a path of operation numbers for each state. A fresh controller takes the path; then it
 * tries every operation and reverts it. An observation is a list of numbers, named by the answer's "fields"; it is empty if
 * Kafka threw.
 * <li>{@code {"explain": {"path": […], "op": …}}}: one operation after a path, both in full. The answer has the records.
 * <li>{@code {"walk": [[…], …]}}: paths of action numbers for a whole cluster.
 * <li>{@code {"errors": true}}: what a leader does after each error of AlterPartition.
 * </ul>
 *
 * <p>If Kafka does not answer in time, the answer is {@code {"waits": …}} of {@link Patience}, and the process ends.
 */
public final class Bridge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JSON.getNodeFactory();

    /** In place of an error code, and of each field of an observation: Kafka throws outside its answer. */
    static final int THROWS = -500;
    /** An answer is sent as an error code and this many times the bits of what else it says. */
    private static final int ANSWERS = 1000;

    private final QuorumControllerMetrics metrics = Versions.metrics();
    private JsonNode scenario;
    private JsonNode[] operations;

    /** The directory for the folders of clusters. It is removed at the end of the process, however it ends. */
    private static Path home;

    /** Arguments: an empty directory, and the seconds of processor time after which an operation counts as endless. */
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        home = Path.of(arguments[0]);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(home)));
        Patience.watch(Integer.parseInt(arguments[1]), out);
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines));
        reader.setDaemon(true);
        reader.start();
        Bridge bridge = new Bridge();
        out.println(hello());
        out.flush();
        while (true) {
            String answer;
            String line = lines.take();
            try {
                answer = bridge.answer(JSON.readTree(line));
            } catch (Throwable thrown) {
                answer = NODES.objectNode().put("bridge", thrown.toString() + at(thrown)).toString();
            }
            Patience.rest();
            out.println(answer);
            out.flush();
        }
    }

    /** Read lines until the input ends: then highwater has ended, and this process ends, whatever it does. */
    private static void read(BlockingQueue<String> lines) {
        try (BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16)) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                lines.add(line);
            }
        } catch (IOException ended) {
            System.err.println(ended);
        }
        System.exit(0);
    }

    /** Remove a directory, into which the main thread may still write. */
    private static void remove(Path place) {
        for (int tries = 0; tries < 100 && Files.exists(place); tries++) {
            try (Stream<Path> paths = Files.walk(place)) {
                paths.sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            } catch (IOException | java.io.UncheckedIOException gone) {
                System.err.println(gone);
            }
        }
    }

    private static String at(Throwable thrown) {
        StackTraceElement[] trace = thrown.getStackTrace();
        return trace.length == 0 ? "" : " at " + trace[0];
    }

    /** True if the bridge's own code threw this, or a Java class that it called. */
    static boolean isOwn(Throwable thrown) {
        for (StackTraceElement frame : thrown.getStackTrace()) {
            String name = frame.getClassName();
            if (name.startsWith("kafka.") || name.startsWith("org.apache.kafka.")) {
                return name.contains(".kafka.controller.Bridge") || name.contains(".kafka.raft.Bridge")
                    || name.contains(".controller.Versions");
            }
        }
        return true;
    }

    /** Return if Kafka's code threw this. Rethrow an exception that the bridge's own code threw. */
    static Throwable ofKafka(Throwable thrown) {
        if (!isOwn(thrown)) {
            return thrown;
        }
        throw thrown instanceof BridgeException known ? known : new BridgeException(thrown + at(thrown));
    }

    private static String hello() {
        ObjectNode errors = NODES.objectNode();
        for (Errors error : Errors.values()) {
            errors.put(error.name(), error.code());
        }
        errors.put("(throws)", THROWS);
        ObjectNode hello = NODES.objectNode();
        hello.set("errors", errors);
        hello.set("says", JSON.valueToTree(BridgeOperations.SAYS));
        hello.set("fields", schemas());
        hello.set("lacking", JSON.valueToTree(Versions.lacking()));
        hello.put("kafka", AppInfoParser.getVersion());
        hello.put("commit", AppInfoParser.getCommitId());
        hello.put("metadataVersion", MetadataVersion.latestProduction().version());
        return hello.toString();
    }

    /** The fields of the newest version of each answer and record, by message; nested ones with a dot. */
    private static ObjectNode schemas() {
        ObjectNode found = NODES.objectNode();
        Map<String, Schema[]> messages = Map.ofEntries(
            Map.entry("AlterPartitionResponse", AlterPartitionResponseData.SCHEMAS),
            Map.entry("AlterPartitionReassignmentsResponse", AlterPartitionReassignmentsResponseData.SCHEMAS),
            Map.entry("AssignReplicasToDirsResponse", AssignReplicasToDirsResponseData.SCHEMAS),
            Map.entry("BrokerHeartbeatResponse", BrokerHeartbeatResponseData.SCHEMAS),
            Map.entry("BrokerRegistrationResponse", BrokerRegistrationResponseData.SCHEMAS),
            Map.entry("ElectLeadersResponse", ElectLeadersResponseData.SCHEMAS),
            Map.entry("UnregisterBrokerResponse", UnregisterBrokerResponseData.SCHEMAS));
        messages.forEach((name, all) -> named(found.putArray(name), "", all[all.length - 1]));
        for (MetadataRecordType type : MetadataRecordType.values()) {
            Schema[] all = schemas(type.newMetadataRecord());
            named(found.putArray(type.name()), "", all[all.length - 1]);
        }
        return found;
    }

    private static Schema[] schemas(ApiMessage message) {
        try {
            return (Schema[]) message.getClass().getField("SCHEMAS").get(null);
        } catch (ReflectiveOperationException wrong) {
            throw new BridgeException(message.getClass() + " has no SCHEMAS");
        }
    }

    private static void named(ArrayNode found, String prefix, Schema schema) {
        for (BoundField bound : schema.fields()) {
            List<Field> fields = bound.def.type instanceof TaggedFields tagged
                ? List.copyOf(tagged.fields().values()) : List.of(bound.def);
            for (Field field : fields) {
                Type type = field.type.arrayElementType().orElse(field.type);
                if (type instanceof Schema inner) {
                    named(found, prefix + field.name + ".", inner);
                } else {
                    found.add(prefix + field.name);
                }
            }
        }
    }

    private String answer(JsonNode line) throws Exception {
        if (line.has("try")) {
            return tryAll(line.get("try"));
        }
        if (line.has("walk")) {
            return walkAll(line.get("walk"));
        }
        if (line.has("errors")) {
            Patience.begin(0, -1);
            try (BridgedCluster cluster = new BridgedCluster(scenario, metrics, home)) {
                return cluster.afterErrors().toString();
            } catch (Throwable thrown) {
                return NODES.objectNode().put("thrown", described(ofKafka(thrown))).toString();
            }
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

        int number(Object observation) {
            String one = observation.toString();
            Integer known = numbers.get(one);
            if (known == null) {
                known = numbers.size();
                numbers.put(one, known);
                text.append(known == 0 ? "" : ",").append(one);
            }
            return known;
        }
    }

    /** A controller after a path. If Kafka threw, {@code thrown} is set. */
    private final class Reached {
        BridgedController controller;
        BridgeOperations to;
        BridgedController.Mark mark;
        Throwable thrown;

        Reached(JsonNode setup, Iterable<JsonNode> path) {
            try {
                controller = fresh(setup);
                to = new BridgeOperations(controller);
                for (JsonNode operation : path) {
                    to.run(operation);
                    controller.forgetSessions();
                }
                controller.observe();
                mark = controller.new Mark(1);
            } catch (Throwable failure) {
                thrown = ofKafka(failure);
            }
        }

        /** The state; without fields if Kafka threw. */
        Observation observe() {
            return thrown == null ? controller.observe() : new Observation();
        }
    }

    private String tryAll(JsonNode paths) {
        Seen seen = new Seen();
        Set<String> names = Set.of();
        StringBuilder answers = new StringBuilder();
        int place = 0;
        for (JsonNode path : paths) {
            Patience.begin(place++, -1);
            List<JsonNode> steps = new ArrayList<>();
            path.forEach(number -> steps.add(operations[number.intValue()]));
            Reached reached = new Reached(scenario, steps);
            Map<String, Integer> fields = reached.observe().fields();
            names = fields.isEmpty() ? names : fields.keySet();
            int before = seen.number(fields.values());
            answers.append(answers.isEmpty() ? "" : ",").append(before);
            for (int number = 0; number < operations.length; number++) {
                Patience.begin(place - 1, number);
                int answer = THROWS;
                int after = before;
                if (reached.thrown == null) {
                    try {
                        Outcome outcome = reached.to.run(operations[number]);
                        boolean same = outcome.records.isEmpty() && !operations[number].has("environment");
                        after = same ? before : seen.number(reached.controller.observe().fields().values());
                        answer = outcome.error + ANSWERS * outcome.answer;
                        reached.mark.revert();
                    } catch (Throwable thrown) {
                        ofKafka(thrown);
                        answer = THROWS;
                        after = before;
                        reached = new Reached(scenario, steps);
                    }
                }
                answers.append(',').append(answer).append(',').append(after);
            }
        }
        return "{\"fields\":" + JSON.valueToTree(names) + ",\"seen\":[" + seen.text + "],\"answers\":[" + answers + "]}";
    }

    // --- walks of a whole cluster ------------------------------------------------------------------------------

    /**
     * Take each path in a fresh cluster. The answer to a path: the number of the first observation; then for each action
     * its result and the number of the observation after it. A path ends at an action that is not done, or at which Kafka
     * throws; "thrown" has the exceptions by path.
     */
    private String walkAll(JsonNode paths) throws Exception {
        Seen seen = new Seen();
        StringBuilder answers = new StringBuilder();
        ObjectNode thrown = NODES.objectNode();
        int place = 0;
        for (JsonNode path : paths) {
            Patience.begin(place, -1);
            answers.append(answers.isEmpty() ? "[" : ",[");
            int step = 0;
            int before = seen.number("{}");
            try (Walked cluster = walked()) {
                before = seen.number(cluster.observe());
                answers.append(before);
                for (JsonNode number : path) {
                    Patience.begin(place, step++);
                    int outcome = cluster.run(operations[number.intValue()]);
                    int after = seen.number(cluster.observe());
                    answers.append(',').append(outcome).append(',').append(after);
                    if (outcome != Walked.DONE && outcome > Walked.REFUSAL) {
                        break;
                    }
                }
            } catch (Throwable failure) {
                thrown.put(Integer.toString(place), described(ofKafka(failure)));
                answers.append(step == 0 ? Integer.toString(before) : "," + THROWS + "," + before);
            }
            answers.append(']');
            place++;
        }
        return "{\"seen\":[" + seen.text + "],\"walks\":[" + answers + "],\"thrown\":" + thrown + "}";
    }

    private Walked walked() throws Exception {
        return scenario.has("voters") ? new BridgedQuorum(scenario) : new BridgedCluster(scenario, metrics, home);
    }

    private static String described(Throwable thrown) {
        return thrown + at(thrown);
    }

    // --- one operation in full -----------------------------------------------------------------------------

    /** The answer to a line {@code {"explain": …}}; tests that conform writes call this method. */
    static JsonNode explained(String request) throws IOException {
        return new Bridge().tell(JSON.readTree(request));
    }

    private ObjectNode tell(JsonNode request) {
        JsonNode setup = request.get("scenario");
        Patience.begin(0, -1);
        Reached reached = new Reached(setup, request.get("path"));
        ObjectNode answer = NODES.objectNode();
        answer.set("before", JSON.valueToTree(reached.observe().fields()));
        Outcome outcome = new Outcome();
        Patience.begin(0, 0);
        if (reached.thrown == null) {
            try {
                outcome = reached.to.run(request.get("op"));
                reached.controller.observe();
            } catch (Throwable failure) {
                reached.thrown = ofKafka(failure);
            }
        }
        answer.set("after", JSON.valueToTree(reached.observe().fields()));
        Throwable thrown = reached.thrown == null ? outcome.thrown : reached.thrown;
        answer.put("error", reached.thrown == null ? outcome.error : THROWS);
        answer.put("answer", outcome.answer);
        if (thrown != null) {
            answer.put("exception", thrown.getClass().getSimpleName());
            answer.put("message", thrown.getMessage() + (reached.thrown == null ? "" : at(thrown)));
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
