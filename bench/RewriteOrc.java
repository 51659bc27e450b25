import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcConf;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.Writer;

/** Reads a file and writes its rows with ORC Java's own defaults: `RewriteOrc SOURCE TARGET COMPRESSION`. */
public final class RewriteOrc {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    OrcConf.COMPRESS.setString(conf, arguments[2]);
    OrcConf.OVERWRITE_OUTPUT_FILE.setBoolean(conf, true);
    Reader reader =
        OrcFile.createReader(new Path(arguments[0]), OrcFile.readerOptions(conf).useUTCTimestamp(true));
    VectorizedRowBatch batch = reader.getSchema().createRowBatch();
    OrcFile.WriterOptions options =
        OrcFile.writerOptions(conf).setSchema(reader.getSchema()).useUTCTimestamp(true);
    try (RecordReader rows = reader.rows();
        Writer writer = OrcFile.createWriter(new Path(arguments[1]), options)) {
      while (rows.nextBatch(batch)) {
        writer.addRowBatch(batch);
      }
    }
  }
}
