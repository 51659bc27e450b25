import java.time.LocalDate;
import java.util.Calendar;
import java.util.GregorianCalendar;
import java.util.List;
import java.util.TimeZone;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.orc.DataMask;
import org.apache.orc.DataMaskDescription;
import org.apache.orc.TypeDescription;
import org.apache.orc.TypeDescription.Category;
import org.apache.orc.impl.MaskDescriptionImpl;
import org.apache.orc.impl.SerializationUtils;

/** What data masks of the Java reference implementation make of values. Rows are written as those of JavaJudge. */
public final class JavaMasks {
  private JavaMasks() {}

  /**
   * What a data mask makes of values. `zone` becomes the JVM's, whose clocks show the parts of times.
   *
   * Vectors count in the hybrid calendar, as Java's own users fill them, and rows in the proleptic one, both ways, by what
   * calendars show. A decimal that its type does not hold is null.
   */
  public static String mask(String typeText, String name, List<String> parameters, String lines, String zone)
      throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    TypeDescription type = TypeDescription.fromString(typeText);
    TypeDescription around = TypeDescription.createStruct().addField("value", type);
    List<String> rows = lines.lines().toList();
    VectorizedRowBatch batch = around.createRowBatch(Math.max(1, rows.size()));
    VectorizedRowBatch maskedBatch = around.createRowBatch(Math.max(1, rows.size()));
    batch.reset();
    maskedBatch.reset(); // strings have no memory before
    ColumnVector original = batch.cols[0];
    ColumnVector masked = maskedBatch.cols[0];
    for (int row = 0; row < rows.size(); row++) {
      JavaJudge.put(original, row, type, JavaJudge.JSON.readTree(rows.get(row)));
    }
    makeRoom(original, masked);
    inCalendar(original, rows.size(), type, true);
    DataMaskDescription description =
        new MaskDescriptionImpl(name, parameters.toArray(new String[0]));
    DataMask.Factory.build(description, type, child -> null)
        .maskData(original, masked, 0, rows.size());
    inCalendar(masked, rows.size(), type, false);
    StringBuilder out = new StringBuilder();
    for (int row = 0; row < rows.size(); row++) {
      JavaJudge.get(out, masked, row, type);
      out.append('\n');
    }
    return out.toString();
  }

  /** Room for the items of lists; and nulls of structs, which Java's masks forget (what was there before stays). */
  private static void makeRoom(ColumnVector source, ColumnVector target) {
    if (source instanceof ListColumnVector) {
      ListColumnVector list = (ListColumnVector) source;
      ((ListColumnVector) target).child.ensureSize(list.childCount, false);
      makeRoom(list.child, ((ListColumnVector) target).child);
    } else if (source instanceof MapColumnVector) {
      MapColumnVector map = (MapColumnVector) source;
      ((MapColumnVector) target).keys.ensureSize(map.childCount, false);
      ((MapColumnVector) target).values.ensureSize(map.childCount, false);
      makeRoom(map.keys, ((MapColumnVector) target).keys);
      makeRoom(map.values, ((MapColumnVector) target).values);
    } else if (source instanceof StructColumnVector) {
      System.arraycopy(source.isNull, 0, target.isNull, 0, source.isNull.length);
      for (int i = 0; i < ((StructColumnVector) source).fields.length; i++) {
        makeRoom(((StructColumnVector) source).fields[i], ((StructColumnVector) target).fields[i]);
      }
    } else if (source instanceof UnionColumnVector) {
      for (int i = 0; i < ((UnionColumnVector) source).fields.length; i++) {
        makeRoom(((UnionColumnVector) source).fields[i], ((UnionColumnVector) target).fields[i]);
      }
    }
  }

  /** Days and times to the hybrid calendar, or back; on the way back, wall clocks as UTC, and no impossible decimals. */
  private static void inCalendar(ColumnVector vector, int rows, TypeDescription type, boolean hybrid) {
    List<TypeDescription> children = type.getChildren();
    int values = vector.isRepeating ? 1 : rows;
    switch (type.getCategory()) {
      case DATE:
        for (int row = 0; row < values; row++) {
          long[] days = ((LongColumnVector) vector).vector;
          days[row] = hybrid ? hybridDay(days[row]) : prolepticDay(days[row]);
        }
        break;
      case TIMESTAMP: case TIMESTAMP_INSTANT:
        for (int row = 0; row < values; row++) {
          long[] times = ((TimestampColumnVector) vector).time;
          long clock = SerializationUtils.convertToUtc(TimeZone.getDefault(), times[row]);
          long day = Math.floorDiv(clock, 86_400_000L);
          long moved = ((hybrid ? hybridDay(day) : prolepticDay(day)) - day) * 86_400_000L;
          boolean wall = !hybrid && type.getCategory() == Category.TIMESTAMP;
          times[row] = (wall ? clock : times[row]) + moved;
        }
        break;
      case DECIMAL:
        for (int row = 0; row < values && !hybrid; row++) {
          HiveDecimalWritable value = ((DecimalColumnVector) vector).vector[row];
          if (!vector.isNull[row] && value.isSet()) {
            value.mutateEnforcePrecisionScale(type.getPrecision(), type.getScale());
          }
          if (!value.isSet()) {
            vector.noNulls = false;
            vector.isNull[row] = true;
          }
        }
        break;
      case LIST:
        inCalendar(((ListColumnVector) vector).child, items(((ListColumnVector) vector).child), children.get(0), hybrid);
        break;
      case MAP: {
        MapColumnVector map = (MapColumnVector) vector;
        inCalendar(map.keys, items(map.keys), children.get(0), hybrid);
        inCalendar(map.values, items(map.values), children.get(1), hybrid);
        break;
      }
      case STRUCT:
        for (int i = 0; i < children.size(); i++) {
          inCalendar(((StructColumnVector) vector).fields[i], rows, children.get(i), hybrid);
        }
        break;
      case UNION:
        for (int i = 0; i < children.size(); i++) {
          inCalendar(((UnionColumnVector) vector).fields[i], rows, children.get(i), hybrid);
        }
        break;
      default:
        break;
    }
  }

  private static int items(ColumnVector child) {
    return child.isNull.length;
  }

  private static final long GREGORIAN_DAY = -141_427;

  /** The day that the hybrid calendar shows like the proleptic one shows this. */
  private static long hybridDay(long day) {
    if (day >= GREGORIAN_DAY) {
      return day;
    }
    LocalDate date = LocalDate.ofEpochDay(day);
    GregorianCalendar calendar = new GregorianCalendar(TimeZone.getTimeZone("UTC"));
    calendar.clear();
    calendar.set(Calendar.ERA, date.getYear() > 0 ? 1 : 0);
    int year = date.getYear() > 0 ? date.getYear() : 1 - date.getYear();
    calendar.set(year, date.getMonthValue() - 1, date.getDayOfMonth());
    return Math.floorDiv(calendar.getTimeInMillis(), 86_400_000L);
  }

  private static long prolepticDay(long day) {
    if (day >= GREGORIAN_DAY) {
      return day;
    }
    GregorianCalendar calendar = new GregorianCalendar(TimeZone.getTimeZone("UTC"));
    calendar.setTimeInMillis(day * 86_400_000L);
    int year = calendar.get(Calendar.YEAR);
    int astronomical = calendar.get(Calendar.ERA) == 1 ? year : 1 - year;
    int month = calendar.get(Calendar.MONTH) + 1;
    return LocalDate.of(astronomical, month, 1).toEpochDay() + calendar.get(Calendar.DAY_OF_MONTH) - 1;
  }
}
