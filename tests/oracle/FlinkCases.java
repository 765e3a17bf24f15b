import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Runs prepared scripts with Flink, one after another in this process, parallelism 1, streaming.
 *
 * <p>Arguments: script files. Statements in a script are separated by lines "--@@". A watermark
 * follows every record, so that lateness does not depend on a timer. Prints "OK path" or
 * "FAILED path reason".
 */
public class FlinkCases {
    public static void main(String[] scripts) throws Exception {
        for (String script : scripts) {
            try {
                run(Files.readString(Path.of(script)));
                System.out.println("OK " + script);
            } catch (Throwable failure) {
                StringBuilder reasons = new StringBuilder();
                for (Throwable t = failure; t != null; t = t.getCause()) {
                    reasons.append(" <- ").append(String.valueOf(t.getMessage()).replace('\n', ' '));
                }
                System.out.println("FAILED " + script + reasons);
            }
            System.out.flush();
        }
        System.exit(0);
    }

    private static void run(String script) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.target", "local");
        configuration.setString("execution.runtime-mode", "streaming");
        configuration.setString("parallelism.default", "1");
        configuration.setString("pipeline.auto-watermark-interval", "0");
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("restart-strategy.type", "none");
        TableEnvironment tables =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().withConfiguration(configuration).build());
        for (String statement : List.of(script.split("(?m)^--@@$"))) {
            String text = statement.strip();
            if (text.isEmpty()) {
                continue;
            }
            // SET is a command of Flink's client, not of its planner.
            java.util.regex.Matcher set =
                    java.util.regex.Pattern.compile("(?is)^SET\\s+'([^']+)'\\s*=\\s*'([^']*)'$")
                            .matcher(text);
            if (set.matches()) {
                tables.getConfig().set(set.group(1), set.group(2));
                continue;
            }
            TableResult result = tables.executeSql(text);
            if (result.getJobClient().isPresent()) {
                result.await();
            }
        }
    }
}
