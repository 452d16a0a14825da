// Makes the certificates and keys of a test in the folder that is given, as PEM: what keytool can do, and
// what it cannot, which is to let keys out.
//
// NAME.pem is a key with its chain; NAME.crt and NAME.key are the two apart; NAME-locked.key is the key,
// encrypted with the password "locked". ca.crt has signed all but those of "stranger", which is a CA too.

import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

public final class Certificates {
    private static final String PASSWORD = "password";
    private static final String LOCK = "PBEWithSHA1AndDESede";
    private static Path folder;

    public static void main(String[] arguments) throws Exception {
        folder = Path.of(arguments[0]);
        make("ca", "-ext", "bc:c", "-ext", "ku:c=keyCertSign");
        make("stranger", "-ext", "bc:c", "-ext", "ku:c=keyCertSign");
        String here = "san=dns:localhost,ip:127.0.0.1";
        make("server", "-signer", "ca", "-ext", here);
        make("expired", "-signer", "ca", "-ext", here, "-startdate", "-9d", "-validity", "3");
        make("elsewhere", "-signer", "ca", "-ext", "san=dns:elsewhere.example");
        make("client", "-signer", "ca");
        make("foreign", "-signer", "stranger");
        KeyStore made = KeyStore.getInstance(folder.resolve("all.p12").toFile(), PASSWORD.toCharArray());
        for (String name : Collections.list(made.aliases())) {
            write(name, made);
        }
        KeyStore java = KeyStore.getInstance("JKS");
        java.load(null, null);
        java.setCertificateEntry("ca", made.getCertificate("ca"));
        try (OutputStream out = new FileOutputStream(folder.resolve("trust.jks").toFile())) {
            java.store(out, PASSWORD.toCharArray());
        }
    }

    private static void make(String name, String... more) throws Exception {
        List<String> words = new ArrayList<>(List.of(
            "-genkeypair", "-alias", name, "-dname", "CN=" + name, "-keyalg", "EC", "-groupname", "secp256r1",
            "-keystore", folder.resolve("all.p12").toString(), "-storepass", PASSWORD, "-validity", "30"));
        words.addAll(List.of(more));
        sun.security.tools.keytool.Main.main(words.toArray(new String[0]));
    }

    private static void write(String name, KeyStore made) throws Exception {
        Key key = made.getKey(name, PASSWORD.toCharArray());
        StringBuilder chain = new StringBuilder();
        for (Certificate each : made.getCertificateChain(name)) {
            chain.append(pem("CERTIFICATE", each.getEncoded()));
        }
        String plain = pem("PRIVATE KEY", key.getEncoded());
        Files.writeString(folder.resolve(name + ".crt"), chain);
        Files.writeString(folder.resolve(name + ".key"), plain);
        Files.writeString(folder.resolve(name + ".pem"), plain + chain);
        Files.writeString(folder.resolve(name + "-locked.key"), pem("ENCRYPTED PRIVATE KEY", locked(key)));
    }

    private static byte[] locked(Key key) throws Exception {
        Cipher cipher = Cipher.getInstance(LOCK);
        cipher.init(
            Cipher.ENCRYPT_MODE,
            SecretKeyFactory.getInstance(LOCK).generateSecret(new PBEKeySpec("locked".toCharArray())));
        return new EncryptedPrivateKeyInfo(cipher.getParameters(), cipher.doFinal(key.getEncoded())).getEncoded();
    }

    private static String pem(String kind, byte[] data) {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(data);
        return "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n";
    }
}
