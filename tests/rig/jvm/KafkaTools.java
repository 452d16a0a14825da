// Runs Kafka's command line tools, one after the other, in one JVM: starting one for each takes longer
// than what they do.
//
// Every run has classes of the tools of its own, as they keep static state; those of the clients are
// shared. The first argument is the jar of the tools, which the class path must be without.
// A line of the input is a run: the files for its output and its errors, the main class, and its
// arguments, with U+001F between them. A line of the output that begins with U+001E answers it with its
// exit code.

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;

import org.apache.kafka.common.utils.Exit;

public final class KafkaTools {
    /** Instead of the end of the process. */
    private static final class Ended extends Error {
    }

    /** Goes where the present run wants it; a `System.out` may be kept by whoever has seen it. */
    private static final class Switch extends OutputStream {
        private volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int oneByte) throws IOException {
            target.write(oneByte);
        }

        @Override
        public void write(byte[] bytes, int start, int length) throws IOException {
            target.write(bytes, start, length);
        }
    }

    private static final Switch OUTPUT = new Switch();
    private static final Switch ERRORS = new Switch();
    private static Integer exitCode;

    public static void main(String[] arguments) throws Exception {
        var answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
        System.setOut(new PrintStream(OUTPUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERRORS, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(KafkaTools::end);
        Exit.setHaltProcedure(KafkaTools::end);
        Exit.setShutdownHookAdder((name, hook) -> { });
        URL tools = Path.of(arguments[0]).toUri().toURL();
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split("\u001f", -1);
            try (var out = new FileOutputStream(words[0]); var err = new FileOutputStream(words[1])) {
                OUTPUT.target = out;
                ERRORS.target = err;
                int code = run(tools, words[2], Arrays.copyOfRange(words, 3, words.length));
                OUTPUT.target = ERRORS.target = OutputStream.nullOutputStream();
                answers.println("\u001e" + code);
            }
        }
        System.exit(0);
    }

    private static synchronized void end(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Ended();
    }

    private static int run(URL tools, String mainClass, String[] arguments) throws Exception {
        exitCode = null;
        try (var loader = new URLClassLoader(new URL[] {tools}, KafkaTools.class.getClassLoader())) {
            Thread.currentThread().setContextClassLoader(loader);
            var main = loader.loadClass(mainClass).getMethod("main", String[].class);
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (!(wrapped.getCause() instanceof Ended)) {
                wrapped.getCause().printStackTrace();
                return 1;
            }
        }
        return exitCode == null ? 0 : exitCode;
    }
}
