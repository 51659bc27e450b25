import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DateColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.io.sarg.PredicateLeaf;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgumentFactory;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.orc.BinaryColumnStatistics;
import org.apache.orc.BooleanColumnStatistics;
import org.apache.orc.CollectionColumnStatistics;
import org.apache.orc.ColumnStatistics;
import org.apache.orc.DateColumnStatistics;
import org.apache.orc.DecimalColumnStatistics;
import org.apache.orc.DoubleColumnStatistics;
import org.apache.orc.InMemoryKeystore;
import org.apache.orc.IntegerColumnStatistics;
import org.apache.orc.OrcFile;
import org.apache.orc.OrcProto;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.StringColumnStatistics;
import org.apache.orc.StripeStatistics;
import org.apache.orc.TimestampColumnStatistics;
import org.apache.orc.TypeDescription;
import org.apache.orc.TypeDescription.Category;
import org.apache.orc.Writer;
import org.apache.orc.impl.ColumnStatisticsImpl;
import org.apache.orc.impl.RecordReaderImpl;
import org.apache.orc.impl.SerializationUtils;

/**
 * Writes and reads ORC files with the Java reference implementation, for tests.
 *
 * A row is one line of JSON, the same both ways: integers and dates (days) as numbers; floating point as text;
 * decimals and strings as text; binary as base64; a timestamp as [seconds, nanos] since 1970 (wall clock, or UTC
 * for an instant); a list as an array; a map as an array of [key, value]; a struct as an array in field order; a
 * union as [tag, value]. Where keys are asked for, null stands for a store without any.
 */
public final class JavaJudge {
  static final ObjectMapper JSON = new ObjectMapper();

  private JavaJudge() {}

  static Configuration configuration(Map<String, String> options) {
    Configuration conf = new Configuration(false);
    conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"); // leaves no checksum files beside
    options.forEach(conf::set);
    return conf;
  }

  /** How files are read here: no host's zone, no host's keys. */
  private static Reader open(String path, InMemoryKeystore keys) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    OrcFile.ReaderOptions options =
        OrcFile.readerOptions(configuration(Map.of())).useUTCTimestamp(true).convertToProlepticGregorian(true);
    options.setKeyProvider(keys == null ? new InMemoryKeystore() : keys);
    return OrcFile.createReader(new Path(path), options);
  }

  /** Writes `lines`; `zone` becomes the JVM's zone, which is the only way to choose the writer's. */
  public static void write(
      String path,
      String schemaText,
      String lines,
      Map<String, String> options,
      String zone,
      int batchRows,
      InMemoryKeystore keys,
      String encrypt,
      String masks)
      throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    TypeDescription schema = TypeDescription.fromString(schemaText);
    OrcFile.WriterOptions writerOptions =
        OrcFile.writerOptions(configuration(options)).setSchema(schema).overwrite(true);
    if (options.containsKey("orc.compress.size")) {
      writerOptions.enforceBufferSize();
    }
    if (encrypt != null) {
      writerOptions.setKeyProvider(keys).encrypt(encrypt).masks(masks);
    }
    VectorizedRowBatch batch = schema.createRowBatch(batchRows);
    proleptic(batch.cols);
    try (Writer writer = OrcFile.createWriter(new Path(path), writerOptions)) {
      if (encrypt != null) {
        JavaEncryption.patch(writer);
      }
      for (String line : (Iterable<String>) lines.lines()::iterator) {
        JsonNode node = JSON.readTree(line);
        int row = batch.size++;
        if (schema.getCategory() == Category.STRUCT) {
          for (int i = 0; i < batch.cols.length; i++) {
            put(batch.cols[i], row, schema.getChildren().get(i), node.get(i));
          }
        } else {
          put(batch.cols[0], row, schema, node);
        }
        if (batch.size == batch.getMaxSize()) {
          writer.addRowBatch(batch);
          batch.reset();
          proleptic(batch.cols);
        }
      }
      if (batch.size > 0) {
        writer.addRowBatch(batch);
      }
    }
  }

  /** What is put in counts days and seconds in the proleptic calendar; the writer converts to the file's. */
  static void proleptic(ColumnVector... vectors) {
    for (ColumnVector vector : vectors) {
      if (vector instanceof DateColumnVector) {
        ((DateColumnVector) vector).changeCalendar(true, false);
      } else if (vector instanceof TimestampColumnVector) {
        ((TimestampColumnVector) vector).changeCalendar(true, false);
      } else if (vector instanceof StructColumnVector) {
        proleptic(((StructColumnVector) vector).fields);
      } else if (vector instanceof UnionColumnVector) {
        proleptic(((UnionColumnVector) vector).fields);
      } else if (vector instanceof ListColumnVector) {
        proleptic(((ListColumnVector) vector).child);
      } else if (vector instanceof MapColumnVector) {
        proleptic(((MapColumnVector) vector).keys, ((MapColumnVector) vector).values);
      }
    }
  }

  static void put(ColumnVector vector, int row, TypeDescription type, JsonNode node) throws Exception {
    if (node.isNull()) {
      vector.noNulls = false;
      vector.isNull[row] = true;
      return;
    }
    switch (type.getCategory()) {
      case BOOLEAN:
        ((LongColumnVector) vector).vector[row] = node.booleanValue() ? 1 : 0;
        break;
      case BYTE: case SHORT: case INT: case LONG: case DATE:
        ((LongColumnVector) vector).vector[row] = node.longValue();
        break;
      case FLOAT: case DOUBLE:
        ((DoubleColumnVector) vector).vector[row] = Double.parseDouble(node.textValue());
        break;
      case STRING: case CHAR: case VARCHAR:
        ((BytesColumnVector) vector).setVal(row, node.textValue().getBytes(StandardCharsets.UTF_8));
        break;
      case BINARY:
        ((BytesColumnVector) vector).setVal(row, Base64.getDecoder().decode(node.textValue()));
        break;
      case DECIMAL:
        ((DecimalColumnVector) vector).set(row, HiveDecimal.create(node.textValue()));
        break;
      case TIMESTAMP: case TIMESTAMP_INSTANT:
        putTimestamp((TimestampColumnVector) vector, row, type, node);
        break;
      case LIST: {
        ListColumnVector list = (ListColumnVector) vector;
        list.offsets[row] = list.childCount;
        list.lengths[row] = node.size();
        list.childCount += node.size();
        list.child.ensureSize(list.childCount, true);
        for (int i = 0; i < node.size(); i++) {
          put(list.child, (int) list.offsets[row] + i, type.getChildren().get(0), node.get(i));
        }
        break;
      }
      case MAP: {
        MapColumnVector map = (MapColumnVector) vector;
        map.offsets[row] = map.childCount;
        map.lengths[row] = node.size();
        map.childCount += node.size();
        map.keys.ensureSize(map.childCount, true);
        map.values.ensureSize(map.childCount, true);
        for (int i = 0; i < node.size(); i++) {
          put(map.keys, (int) map.offsets[row] + i, type.getChildren().get(0), node.get(i).get(0));
          put(map.values, (int) map.offsets[row] + i, type.getChildren().get(1), node.get(i).get(1));
        }
        break;
      }
      case STRUCT:
        for (int i = 0; i < node.size(); i++) {
          put(((StructColumnVector) vector).fields[i], row, type.getChildren().get(i), node.get(i));
        }
        break;
      case UNION: {
        UnionColumnVector union = (UnionColumnVector) vector;
        int tag = node.get(0).intValue();
        union.tags[row] = tag;
        put(union.fields[tag], row, type.getChildren().get(tag), node.get(1));
        break;
      }
      default:
        throw new IllegalArgumentException("cannot write " + type);
    }
  }

  private static void putTimestamp(TimestampColumnVector vector, int row, TypeDescription type, JsonNode node) {
    int nanos = node.get(1).intValue();
    long millis = node.get(0).longValue() * 1000 + nanos / 1_000_000;
    if (type.getCategory() == Category.TIMESTAMP) {
      millis = SerializationUtils.convertFromUtc(TimeZone.getDefault(), millis);
    }
    vector.time[row] = millis;
    vector.nanos[row] = nanos;
  }

  /** Every row; timestamps come as wall clock of the writer's zone. */
  public static String read(String path, InMemoryKeystore keys) throws Exception {
    return read(path, keys, new Reader.Options(), null, 0, Long.MAX_VALUE);
  }

  /** Every row as the file's schema evolves to `schemaText`; null asks for the file's own. */
  public static String readAs(String path, String schemaText) throws Exception {
    return read(path, null, new Reader.Options(), schemaText, 0, Long.MAX_VALUE);
  }

  /** Up to `count` rows, after seeking to row `first` by the file's row indexes. */
  public static String readFrom(String path, long first, long count, InMemoryKeystore keys) throws Exception {
    return read(path, keys, new Reader.Options(), null, first, count);
  }

  /** The rows of the row groups that may hold a value equal to `literal`, by statistics and bloom filters. */
  public static String readGroupsWith(String path, String column, String type, String literal) throws Exception {
    return readGroups(path, column, type, "EQUALS", List.of(literal), null);
  }

  /** The rows of the row groups that may answer a predicate, by statistics and bloom filters. */
  public static String readGroups(
      String path, String column, String type, String operator, List<String> literals, InMemoryKeystore keys)
      throws Exception {
    PredicateLeaf.Type leaf = PredicateLeaf.Type.valueOf(type);
    Object[] values = new Object[literals.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = literal(leaf, literals.get(i));
    }
    SearchArgument.Builder builder = SearchArgumentFactory.newBuilder().startAnd();
    switch (operator) {
      case "EQUALS": builder.equals(column, leaf, values[0]); break;
      case "LESS_THAN": builder.lessThan(column, leaf, values[0]); break;
      case "LESS_THAN_EQUALS": builder.lessThanEquals(column, leaf, values[0]); break;
      case "NOT_LESS_THAN": builder.startNot().lessThan(column, leaf, values[0]).end(); break;
      case "BETWEEN": builder.between(column, leaf, values[0], values[1]); break;
      case "IN": builder.in(column, leaf, values); break;
      case "IS_NULL": builder.isNull(column, leaf); break;
      default: throw new IllegalArgumentException(operator);
    }
    SearchArgument argument = builder.end().build();
    Reader.Options options = new Reader.Options().searchArgument(argument, new String[] {column});
    return read(path, keys, options.allowSARGToFilter(false), null, 0, Long.MAX_VALUE);
  }

  /** Days since 1970 for DATE, nanoseconds since then for TIMESTAMP, as text; JVM and reader count in UTC. */
  private static Object literal(PredicateLeaf.Type leaf, String text) {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    switch (leaf) {
      case LONG: return Long.valueOf(text);
      case FLOAT: return Double.valueOf(text);
      case DECIMAL: return new HiveDecimalWritable(text);
      case BOOLEAN: return Boolean.valueOf(text);
      case DATE: return new java.sql.Date(Long.parseLong(text) * 86_400_000L);
      case TIMESTAMP: {
        long nanos = Long.parseLong(text);
        java.sql.Timestamp time = new java.sql.Timestamp(Math.floorDiv(nanos, 1_000_000L));
        time.setNanos((int) Math.floorMod(nanos, 1_000_000_000L));
        return time;
      }
      default: return text;
    }
  }

  /** What Java makes of a file's statistics: {"file": [...], "stripes": [[...]], "groups": [[[...]]]}, by column id. */
  public static String statistics(String path, InMemoryKeystore keys) throws Exception {
    ObjectNode out = JSON.createObjectNode();
    try (Reader reader = open(path, keys)) {
      add(out.putArray("file"), reader.getStatistics());
      ArrayNode stripes = out.putArray("stripes");
      for (StripeStatistics stripe : reader.getStripeStatistics()) {
        add(stripes.addArray(), stripe.getColumnStatistics());
      }
      ArrayNode groups = out.putArray("groups");
      if (reader.getRowIndexStride() > 0) {
        boolean hybrid = !reader.writerUsedProlepticGregorian();
        boolean[] none = new boolean[reader.getSchema().getMaximumId() + 1]; // of bloom filters
        try (RecordReader rows = reader.rows()) {
          for (int stripe = 0; stripe < reader.getStripes().size(); stripe++) {
            OrcProto.RowIndex[] index = ((RecordReaderImpl) rows).readRowIndex(stripe, null, none).getRowGroupIndex();
            ArrayNode inStripe = groups.addArray();
            for (int group = 0; group < index[0].getEntryCount(); group++) {
              ColumnStatistics[] found = new ColumnStatistics[index.length];
              for (int column = 0; column < index.length; column++) {
                if (index[column] != null) { // ORC 1.6 has none for encrypted columns, where they belong
                  found[column] = ColumnStatisticsImpl.deserialize(
                      reader.getSchema().findSubtype(column), index[column].getEntry(group).getStatistics(), !hybrid, true);
                }
              }
              add(inStripe.addArray(), found);
            }
          }
        }
      }
    }
    return JSON.writeValueAsString(out);
  }

  private static void add(ArrayNode out, ColumnStatistics[] statistics) {
    for (ColumnStatistics found : statistics) {
      if (found == null) {
        out.addNull();
        continue;
      }
      ObjectNode one = out.addObject();
      one.put("count", found.getNumberOfValues());
      one.put("has_null", found.hasNull());
      one.put("bytes_on_disk", found.getBytesOnDisk());
      one.put("kind", found.getClass().getSimpleName().replace("StatisticsImpl", ""));
      if (found.getNumberOfValues() == 0) {
        continue;
      }
      if (found instanceof IntegerColumnStatistics) {
        IntegerColumnStatistics s = (IntegerColumnStatistics) found;
        bounds(one, s.getMinimum(), s.getMaximum(), s.isSumDefined() ? s.getSum() : null);
      } else if (found instanceof DoubleColumnStatistics) {
        DoubleColumnStatistics s = (DoubleColumnStatistics) found;
        bounds(one, s.getMinimum(), s.getMaximum(), s.getSum());
      } else if (found instanceof StringColumnStatistics) {
        StringColumnStatistics s = (StringColumnStatistics) found;
        bounds(one, s.getMinimum(), s.getMaximum(), s.getSum());
        one.put("lower_bound", s.getLowerBound());
        one.put("upper_bound", s.getUpperBound());
      } else if (found instanceof DecimalColumnStatistics) {
        DecimalColumnStatistics s = (DecimalColumnStatistics) found;
        bounds(one, s.getMinimum(), s.getMaximum(), s.getSum());
      } else if (found instanceof DateColumnStatistics) {
        DateColumnStatistics s = (DateColumnStatistics) found;
        bounds(one, s.getMinimumDayOfEpoch(), s.getMaximumDayOfEpoch(), null);
      } else if (found instanceof TimestampColumnStatistics) {
        TimestampColumnStatistics s = (TimestampColumnStatistics) found;
        bounds(one, nanoseconds(s.getMinimumUTC()), nanoseconds(s.getMaximumUTC()), null);
      } else if (found instanceof BooleanColumnStatistics) {
        bounds(one, null, null, ((BooleanColumnStatistics) found).getTrueCount());
      } else if (found instanceof BinaryColumnStatistics) {
        bounds(one, null, null, ((BinaryColumnStatistics) found).getSum());
      } else if (found instanceof CollectionColumnStatistics) {
        CollectionColumnStatistics s = (CollectionColumnStatistics) found;
        bounds(one, s.getMinimumChildren(), s.getMaximumChildren(), s.getTotalChildren());
      }
    }
  }

  private static void bounds(ObjectNode out, Object minimum, Object maximum, Object sum) {
    out.put("minimum", minimum == null ? null : minimum.toString());
    out.put("maximum", maximum == null ? null : maximum.toString());
    out.put("sum", sum == null ? null : sum.toString());
  }

  private static String nanoseconds(java.sql.Timestamp time) {
    return BigInteger.valueOf(Math.floorDiv(time.getTime(), 1000L))
        .multiply(BigInteger.valueOf(1_000_000_000L))
        .add(BigInteger.valueOf(time.getNanos()))
        .toString();
  }

  private static String read(
      String path, InMemoryKeystore keys, Reader.Options reading, String schemaText, long first, long count)
      throws Exception {
    StringBuilder out = new StringBuilder();
    try (Reader reader = open(path, keys)) {
      TypeDescription schema = schemaText == null ? reader.getSchema() : TypeDescription.fromString(schemaText);
      Reader.Options chosen = schemaText == null ? reading : reader.options().schema(schema);
      try (RecordReader rows = reader.rows(chosen)) {
        if (first > 0) {
          rows.seekToRow(first);
        }
        VectorizedRowBatch batch = schema.createRowBatch();
        while (count > 0 && rows.nextBatch(batch)) {
          for (int row = 0; row < batch.size && count > 0; row++, count--) {
            if (schema.getCategory() == Category.STRUCT) {
              fields(out, batch.cols, row, schema.getChildren());
            } else {
              get(out, batch.cols[0], row, schema);
            }
            out.append('\n');
          }
        }
      }
    }
    return out.toString();
  }

  private static void fields(StringBuilder out, ColumnVector[] vectors, int row, List<TypeDescription> types)
      throws Exception {
    out.append('[');
    for (int i = 0; i < vectors.length; i++) {
      out.append(i > 0 ? "," : "");
      get(out, vectors[i], row, types.get(i));
    }
    out.append(']');
  }

  private static void text(StringBuilder out, String value) throws Exception {
    out.append(JSON.writeValueAsString(value));
  }

  static void get(StringBuilder out, ColumnVector vector, int at, TypeDescription type) throws Exception {
    int row = vector.isRepeating ? 0 : at;
    if (!vector.noNulls && vector.isNull[row]) {
      out.append("null");
      return;
    }
    List<TypeDescription> children = type.getChildren();
    switch (type.getCategory()) {
      case BOOLEAN:
        out.append(((LongColumnVector) vector).vector[row] != 0);
        break;
      // What masks leave can be longer than the type; who takes values out of vectors cuts them.
      case BYTE:
        out.append((byte) ((LongColumnVector) vector).vector[row]);
        break;
      case SHORT:
        out.append((short) ((LongColumnVector) vector).vector[row]);
        break;
      case INT:
        out.append((int) ((LongColumnVector) vector).vector[row]);
        break;
      case LONG: case DATE:
        out.append(((LongColumnVector) vector).vector[row]);
        break;
      case FLOAT: case DOUBLE:
        text(out, Double.toString(((DoubleColumnVector) vector).vector[row]));
        break;
      case STRING: case CHAR: case VARCHAR: {
        BytesColumnVector bytes = (BytesColumnVector) vector;
        text(out, new String(bytes.vector[row], bytes.start[row], bytes.length[row], StandardCharsets.UTF_8));
        break;
      }
      case BINARY: {
        BytesColumnVector bytes = (BytesColumnVector) vector;
        byte[] value =
            Arrays.copyOfRange(bytes.vector[row], bytes.start[row], bytes.start[row] + bytes.length[row]);
        text(out, Base64.getEncoder().encodeToString(value));
        break;
      }
      case DECIMAL: {
        HiveDecimal value = ((DecimalColumnVector) vector).vector[row].getHiveDecimal();
        text(out, value.bigDecimalValue().setScale(type.getScale(), RoundingMode.UNNECESSARY).toPlainString());
        break;
      }
      case TIMESTAMP: case TIMESTAMP_INSTANT: {
        TimestampColumnVector time = (TimestampColumnVector) vector;
        out.append('[').append(Math.floorDiv(time.time[row], 1000L)).append(',').append(time.nanos[row]).append(']');
        break;
      }
      case LIST: {
        ListColumnVector list = (ListColumnVector) vector;
        out.append('[');
        for (int i = 0; i < list.lengths[row]; i++) {
          out.append(i > 0 ? "," : "");
          get(out, list.child, (int) list.offsets[row] + i, children.get(0));
        }
        out.append(']');
        break;
      }
      case MAP: {
        MapColumnVector map = (MapColumnVector) vector;
        out.append('[');
        for (int i = 0; i < map.lengths[row]; i++) {
          out.append(i > 0 ? ",[" : "[");
          get(out, map.keys, (int) map.offsets[row] + i, children.get(0));
          out.append(',');
          get(out, map.values, (int) map.offsets[row] + i, children.get(1));
          out.append(']');
        }
        out.append(']');
        break;
      }
      case STRUCT:
        fields(out, ((StructColumnVector) vector).fields, row, children);
        break;
      case UNION: {
        UnionColumnVector union = (UnionColumnVector) vector;
        int tag = union.tags[row];
        out.append('[').append(tag).append(',');
        get(out, union.fields[tag], row, children.get(tag));
        out.append(']');
        break;
      }
      default:
        throw new IllegalArgumentException("cannot read " + type);
    }
  }
}
