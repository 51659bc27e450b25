import java.io.InputStream;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.Key;
import java.security.KeyStore;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.orc.Writer;

/** What the judge needs for encryption besides rows and files: a writer that works, masks by themselves, key files. */
public final class JavaEncryption {
  /** Enough for the items of one batch. */
  private static final int ROOM = 1 << 15;

  private JavaEncryption() {}

  /**
   * Prepares the vectors that the masks of a writer write into. ORC 2.3.0 forgets some things: strings have no
   * buffers, children of lists and maps no room for more than 1024 items, and decimals are of a kind that the mask
   * "redact" does not know.
   */
  static void patch(Writer writer) throws Exception {
    patch(writer, Collections.newSetFromMap(new IdentityHashMap<>()));
  }

  private static Object patch(Object part, Set<Object> seen) throws Exception {
    if (part == null || !seen.add(part)) {
      return part;
    }
    Class<?> type = part.getClass();
    if (part instanceof ColumnVector) {
      return vector((ColumnVector) part);
    }
    if (type.isArray()) {
      for (int i = 0; !type.getComponentType().isPrimitive() && i < Array.getLength(part); i++) {
        Array.set(part, i, patch(Array.get(part, i), seen));
      }
      return part;
    }
    for (; type != null && type.getName().startsWith("org.apache.orc.impl."); type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (leadsToVectors(field)) {
          field.setAccessible(true);
          Object found = field.get(part);
          Object patched = patch(found, seen);
          if (patched != found) {
            field.set(part, patched);
          }
        }
      }
    }
    return part;
  }

  private static ColumnVector vector(ColumnVector vector) {
    if (vector instanceof Decimal64ColumnVector) {
      Decimal64ColumnVector decimal = (Decimal64ColumnVector) vector;
      return vector(new DecimalColumnVector(ROOM, decimal.precision, decimal.scale));
    }
    if (vector instanceof ListColumnVector) {
      ListColumnVector list = (ListColumnVector) vector;
      list.child = vector(list.child);
    } else if (vector instanceof MapColumnVector) {
      MapColumnVector map = (MapColumnVector) vector;
      map.keys = vector(map.keys);
      map.values = vector(map.values);
    } else if (vector instanceof StructColumnVector) {
      vectors(((StructColumnVector) vector).fields);
    } else if (vector instanceof UnionColumnVector) {
      vectors(((UnionColumnVector) vector).fields);
    }
    vector.init();
    vector.ensureSize(ROOM, false);
    return vector;
  }

  private static void vectors(ColumnVector[] vectors) {
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = vector(vectors[i]);
    }
  }

  private static boolean leadsToVectors(Field field) {
    Class<?> type = field.getType().isArray() ? field.getType().getComponentType() : field.getType();
    return !Modifier.isStatic(field.getModifiers())
        && (type.getName().startsWith("org.apache.orc.impl.writer.") || ColumnVector.class.isAssignableFrom(type));
  }

  /** The bytes of a key in a key store of Java's JCEKS format. */
  public static byte[] keyOfStore(String path, String password, String alias) throws Exception {
    KeyStore store = KeyStore.getInstance("JCEKS");
    try (InputStream in = Files.newInputStream(Paths.get(path))) {
      store.load(in, password.toCharArray());
    }
    Key key = store.getKey(alias, password.toCharArray());
    return key.getEncoded();
  }
}
