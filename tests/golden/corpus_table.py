"""One row a file of the corpus: how its contents are judged, or why it is refused.

A row names the strongest judge there is: expected contents of the origin (`json`, `csv`, `twin`), a known answer
(`known`, `check`, `whole`), else a peer that read the file (`peer`), else the bytes alone (`bytes_only`, with
the reason why no peer will do). Whatever the judge, the plain-Python reference must agree too. `refused` names
the class of the error and a part of its text. Keyword arguments are options of the read.
"""

# ruff: noqa: E501  (the corpus has long paths)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from tests.golden import corpus_answers as answers

Judge = Literal["json", "csv", "twin", "known", "check", "whole", "peer", "bytes", "refused"]


@dataclass(frozen=True)
class Row:
    """How one file is judged; `text` is the file of expected contents, the peer, the reason or the error."""

    judge: Judge
    text: str = ""
    options: dict[str, str] = field(default_factory=dict)
    known: Callable[[], answers.Columns] | None = None
    check: Callable[[Sequence[object]], None] | None = None
    whole: Callable[[], pa.Table] | None = None
    error: str = ""
    arrow: bool = True


def json(file: str) -> Row:
    """Rows as JSON in the origin's notation."""
    return Row("json", file)


def csv(file: str) -> Row:
    return Row("csv", file)


def twin(file: str) -> Row:
    """The same table as Parquet."""
    return Row("twin", file)


def known(answer: Callable[[], answers.Columns], **options: str) -> Row:
    """Some columns' values."""
    return Row("known", options=options, known=answer)


def check(function: Callable[[Sequence[object]], None]) -> Row:
    """A function that looks at the rows and fails."""
    return Row("check", check=function)


def whole(function: Callable[[], pa.Table]) -> Row:
    """The whole table, computed; for files too large for anything slower."""
    return Row("whole", whole=function)


def peer(name: Literal["pyarrow", "pyorc"], **options: str) -> Row:
    return Row("peer", name, options)


def bytes_only(why: str, **options: str) -> Row:
    return Row("bytes", why, options)


def python_only(row: Row) -> Row:
    """Rows that Arrow (null keys) or pyarrow's import (64 levels) cannot hold: read with `to_pylist`."""
    return replace(row, arrow=False)


def refused(error: str, text: str) -> Row:
    return Row("refused", text, error=error)


TABLE: dict[str, Row] = {
    "acid/dummy_id_data_orc/000000_0": peer("pyarrow"),
    "acid/dummy_id_data_orc/000001_0": peer("pyarrow"),
    "acid/dummy_id_data_orc/000002_0": peer("pyarrow"),
    "acid/dummy_id_data_orc/000002_0_copy_1": peer("pyarrow"),
    "acid/dummy_id_data_orc/000002_0_copy_2": peer("pyarrow"),
    "acid/dummy_id_data_orc/delete_delta_10000001_10000001_0000/bucket_00000": peer("pyarrow"),
    "acid/nation25k/delete_delta_0000003_0000003_0000/bucket_00000": peer("pyarrow"),
    "acid/nation25k/delete_delta_0000004_0000004_0000/bucket_00000": peer("pyarrow"),
    "acid/nation25k/delta_0000002_0000002_0000/bucket_00000": peer("pyarrow"),
    "apache-orc/TestOrcFile.columnProjection.orc": json(
        "apache-orc/expected/TestOrcFile.columnProjection.jsn.gz"
    ),
    "apache-orc/TestOrcFile.emptyFile.orc": json("apache-orc/expected/TestOrcFile.emptyFile.jsn.gz"),
    "apache-orc/TestOrcFile.metaData.orc": json("apache-orc/expected/TestOrcFile.metaData.jsn.gz"),
    "apache-orc/TestOrcFile.nestedList.orc": peer("pyarrow"),
    "apache-orc/TestOrcFile.test1.orc": json("apache-orc/expected/TestOrcFile.test1.jsn.gz"),
    "apache-orc/TestOrcFile.testDate1900.orc": json("apache-orc/expected/TestOrcFile.testDate1900.jsn.gz"),
    "apache-orc/TestOrcFile.testMemoryManagementV11.orc": json(
        "apache-orc/expected/TestOrcFile.testMemoryManagementV11.jsn.gz"
    ),
    "apache-orc/TestOrcFile.testPredicatePushdown.orc": json(
        "apache-orc/expected/TestOrcFile.testPredicatePushdown.jsn.gz"
    ),
    "apache-orc/TestOrcFile.testSargSkipPickupGroupWithoutIndexCPlusPlus.orc": peer("pyarrow"),
    "apache-orc/TestOrcFile.testStringAndBinaryStatistics.orc": json(
        "apache-orc/expected/TestOrcFile.testStringAndBinaryStatistics.jsn.gz"
    ),
    "apache-orc/TestOrcFile.testStripeLevelStats.orc": json(
        "apache-orc/expected/TestOrcFile.testStripeLevelStats.jsn.gz"
    ),
    "apache-orc/TestOrcFile.testTimestamp.orc": json("apache-orc/expected/TestOrcFile.testTimestamp.jsn.gz"),
    "apache-orc/TestOrcFile.testUnionAndTimestamp.orc": json(
        "apache-orc/expected/TestOrcFile.testUnionAndTimestamp.jsn.gz"
    ),
    "apache-orc/TestOrcFile.testWithoutIndex.orc": json(
        "apache-orc/expected/TestOrcFile.testWithoutIndex.jsn.gz"
    ),
    "apache-orc/TestVectorOrcFile.testLzo.orc": json("apache-orc/expected/TestVectorOrcFile.testLzo.jsn.gz"),
    "apache-orc/TestVectorOrcFile.testZstd.0.12.orc": peer("pyarrow"),
    "apache-orc/bad_bloom_filter_1.6.0.orc": peer("pyarrow"),
    "apache-orc/corrupt/missing_length_stream_in_string_dict.orc": refused("CorruptStream", "LENGTH"),
    "apache-orc/corrupt/stripe_footer_bad_column_encodings.orc": refused("CorruptStripe", "stripe footer"),
    "apache-orc/decimal.orc": json("apache-orc/expected/decimal.jsn.gz"),
    "apache-orc/decimal64_v2_cplusplus.orc": peer("pyarrow"),
    "apache-orc/demo-12-zlib.orc": whole(answers.customer_demographics),
    "apache-orc/encrypted/sample1.orc": known(answers.masked_columns),
    "apache-orc/java/acid5k.orc": peer("pyarrow"),
    "apache-orc/java/col.dot.orc": peer("pyarrow"),
    "apache-orc/java/orc-file-dst-no-timezone.orc": known(
        answers.dst_read_in_los_angeles, default_timezone="America/Los_Angeles"
    ),
    "apache-orc/java/orc-file-no-double-statistic.orc": peer("pyarrow"),
    "apache-orc/java/orc_corrupt_zlib.orc": refused("CorruptTail", "decompress"),
    "apache-orc/java/orc_split_elim.orc": peer("pyarrow"),
    "apache-orc/nulls-at-end-snappy.orc": json("apache-orc/expected/nulls-at-end-snappy.jsn.gz"),
    "apache-orc/orc-file-11-format.orc": json("apache-orc/expected/orc-file-11-format.jsn.gz"),
    "apache-orc/orc_index_int_string.orc": json("apache-orc/expected/orc_index_int_string.jsn.gz"),
    "apache-orc/orc_split_elim.orc": json("apache-orc/expected/orc_split_elim.jsn.gz"),
    "apache-orc/orc_split_elim_cpp.orc": json("apache-orc/expected/orc_split_elim_cpp.jsn.gz"),
    "apache-orc/version1999.orc": peer("pyarrow"),
    "apache-orc/zero.orc": bytes_only(
        "an empty table, as for Java: Hive leaves such files for empty buckets"
    ),
    "clickhouse-proton/corrupted.orc": refused("CorruptTail", "3 children with 2 names"),
    "clickhouse-proton/nested_table.orc": twin("clickhouse-proton/expected/nested_table.parquet"),
    "clickhouse-proton/test.orc": peer("pyarrow"),
    "cudf/TestOrcFile.Hive.AllNulls.orc": peer("pyarrow"),
    "cudf/TestOrcFile.Hive.NullStructStripe.orc": peer("pyarrow"),
    "cudf/TestOrcFile.Hive.OneEmptyList.orc": peer("pyarrow"),
    "cudf/TestOrcFile.Hive.OneNullStruct.orc": peer("pyarrow"),
    "cudf/TestOrcFile.NestedStructDataFrame.orc": peer("pyarrow"),
    "cudf/TestOrcFile.NoIndStrm.IntWithNulls.orc": peer("pyarrow"),
    "cudf/TestOrcFile.NoIndStrm.StructAndIntWithNulls.orc": peer("pyarrow"),
    "cudf/TestOrcFile.RLEv2.orc": peer("pyarrow"),
    "cudf/TestOrcFile.Spark.EpochTimestamp.Shanghai.orc": known(answers.shanghai_before_epoch),
    "cudf/TestOrcFile.Spark.NestedNotNullableStruct.orc": peer("pyarrow"),
    "cudf/TestOrcFile.apache_timestamp.orc": bytes_only(
        "pyarrow cannot hold 1647 and pyorc does not undo the hybrid calendar", timestamp_unit="us"
    ),
    "cudf/TestOrcFile.boolean_corruption_PR_6636.orc": peer("pyarrow"),
    "cudf/TestOrcFile.decimal.multiple.values.orc": peer("pyarrow"),
    "cudf/TestOrcFile.decimal.same.values.orc": peer("pyarrow"),
    "cudf/TestOrcFile.int16.rle.size.orc": check(answers.check_narrowed_smallint),
    "cudf/TestOrcFile.largeTimestamps.orc": peer("pyorc", timestamp_unit="us"),
    "cudf/TestOrcFile.testPySparkStruct.orc": peer("pyarrow"),
    "cudf/TestOrcFile.timestamp.desynced.snappy.RLEv2.hasNull.orc": peer("pyarrow"),
    "cudf/TestOrcFile.timestamp.desynced.uncompressed.RLEv2.orc": peer("pyarrow"),
    "cudf/TestOrcFile.timestamp.issue.orc": peer("pyarrow"),
    "cudf/footer_underflow.orc": refused("FormatError", "postscript"),
    "cudf/java/TestOrcFile.orc": peer("pyarrow"),
    "cudf/java/splittable.orc": peer("pyarrow"),
    "cudf/java/timestamp-date-test.orc": bytes_only(
        "pyarrow cannot hold 1234, pyorc does not undo the hybrid calendar", timestamp_unit="us"
    ),
    "cudf/nodata.orc": peer("pyarrow"),
    "cudf/uncompressed_snappy.orc": peer("pyarrow"),
    "dremio/struct_with_nulls.orc": peer("pyarrow"),
    "dremio/testsample1.orc": peer("pyarrow"),
    "gluten/all_data_types_with_non_primitive_type.snappy.orc": peer("pyarrow"),
    "gluten/bm_lineitem/lineitem.orc": peer("pyarrow"),
    "gluten/bm_lineitem/short_decimal_nonull.orc": peer("pyarrow"),
    "gluten/case_insensitive_column_matching.orc": peer("pyarrow"),
    "gluten/lineitem.orc": peer("pyarrow"),
    "gluten/type1_orc/part-00000-e084aa04-c639-40f9-a85f-4b8b10dae1b4-c000.snappy.orc": peer("pyarrow"),
    "hetu-core/test-data-composites-with-nulls.orc": python_only(peer("pyorc")),
    "hetu-core/test-data-repeating-no-null.orc": peer("pyarrow"),
    "hetu-core/test-data-repeating.orc": peer("pyarrow"),
    "impala/ComplexTypesTbl/arrays.orc": twin("impala/expected/arrays.parq"),
    "impala/ComplexTypesTbl/nonnullable.orc": json("impala/expected/nonnullable.json"),
    "impala/ComplexTypesTbl/nullable.orc": json("impala/expected/nullable.json"),
    "impala/LineItemMultiBlock/lineitem_sixblocks.orc": peer("pyarrow"),
    "impala/LineItemMultiBlock/lineitem_threeblocks.orc": peer("pyarrow"),
    "impala/alltypes_non_acid.orc": peer("pyarrow"),
    "impala/corrupt_root_type.orc": refused("Unsupported", "kind 36"),
    "impala/date_tbl.orc": known(answers.date_extremes),
    "impala/full_acid_schema_but_no_acid_version.orc": peer("pyarrow"),
    "impala/hive2_pre_gregorian.orc": known(answers.hive2_around_1582),
    "impala/iceberg/airports_orc/000000_0": peer("pyarrow"),
    "impala/iceberg/complextypestbl_iceberg_orc/data/00000-0-boroknagyz_20210331133358_b718b2ff-9f49-4056-a5ed-0d37ec144fff-job_16171873329050_0002-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_alltypes_part_orc/p_bool=true/p_int=1/p_bigint=11/p_float=1.1/p_double=2.222/p_decimal=123.321/p_date=2022-02-22/p_string=impala/000000_0": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_legacy_partition_schema_evolution_orc/p_int_long=1/p_float_double=1.1/p_dec_dec=2.718/000000_0": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_legacy_partition_schema_evolution_orc/p_int_long=1/p_float_double=1.1/p_dec_dec=3.141/000000_0": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_migrated_complex_test_orc/000000_0": peer("pyarrow"),
    "impala/iceberg/iceberg_mixed_file_format_test/data/00000-0-data-gfurnstahl_20220906113255_8d49367d-e338-4996-ade5-ee500a19c1d1-job_16619542960420_0003-1-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_mixed_file_format_test/data/00000-0-data-gfurnstahl_20220906114900_9c1b7b46-5643-428f-a007-519c5500ed04-job_16619542960420_0004-1-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_partitioned_orc/data/action=click/00004-4-0982a5d3-48c0-4dd0-ab87-d24190894251-00000.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_partitioned_orc/data/action=download/00003-3-fb7663c5-aade-4690-bdfc-2334d605a891-00000.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_no_deletes_orc/data/00000-0-data-boroknagyz_20220830153046_7c9aaa51-d601-4c5b-a51c-67c1e9e1fe29-job_16618645111570_0001-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_partitioned_position_deletes_orc/data/action=click/00000-0-data-boroknagyz_20220830173852_560d6f0e-8508-42d6-95a7-67bfa860a28c-job_16618645111571_0006-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_partitioned_position_deletes_orc/data/action=click/00000-0-delete-boroknagyz_20220830173925_010bf879-cf2f-4209-a70b-1a8309657106-job_16618645111571_0006-00002.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_partitioned_position_deletes_orc/data/action=download/00000-0-data-boroknagyz_20220830173852_560d6f0e-8508-42d6-95a7-67bfa860a28c-job_16618645111571_0006-00002.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_partitioned_position_deletes_orc/data/action=download/00000-0-delete-boroknagyz_20220830173925_010bf879-cf2f-4209-a70b-1a8309657106-job_16618645111571_0006-00003.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_partitioned_position_deletes_orc/data/action=view/00000-0-data-boroknagyz_20220830173852_560d6f0e-8508-42d6-95a7-67bfa860a28c-job_16618645111571_0006-00003.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_partitioned_position_deletes_orc/data/action=view/00000-0-delete-boroknagyz_20220830173925_010bf879-cf2f-4209-a70b-1a8309657106-job_16618645111571_0006-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_positional_not_all_data_files_have_delete_files_orc/data/00000-0-data-boroknagyz_20220830155232_f36b3f3e-183a-475a-a7d1-d16898fd4524-job_16618645111570_0003-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_positional_not_all_data_files_have_delete_files_orc/data/00000-0-data-boroknagyz_20220830155307_610e0b78-1186-477b-a30b-9943cb4e90e9-job_16618645111570_0003-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_positional_not_all_data_files_have_delete_files_orc/data/00000-0-data-boroknagyz_20220830155337_fcbda57d-f37d-48cd-afe4-28d0bad0a4c0-job_16618645111570_0004-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_positional_not_all_data_files_have_delete_files_orc/data/00000-0-data-boroknagyz_20220830155411_eee97f13-df3d-408c-bcff-8e3b0dcf8fa7-job_16618645111570_0004-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_positional_not_all_data_files_have_delete_files_orc/data/00000-0-delete-boroknagyz_20220830155337_fcbda57d-f37d-48cd-afe4-28d0bad0a4c0-job_16618645111571_0004-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v2_positional_not_all_data_files_have_delete_files_orc/data/00000-0-delete-boroknagyz_20220830155430_32c848c9-37ad-4f77-a0fd-0a254d15246c-job_16618645111571_0004-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v3_default_value_orc/data/00000-0-ab2ce281-9c77-4045-aec4-8338f184d93e-0-00001.orc": peer(
        "pyarrow"
    ),
    "impala/iceberg/iceberg_v3_default_value_orc/data/00000-1-01c07679-b344-4993-aaa7-1c0aa90555ed-0-00001.orc": peer(
        "pyarrow"
    ),
    "impala/max_nesting_depth/orc/int_array/file.orc": python_only(peer("pyarrow")),
    "impala/max_nesting_depth/orc/struct/file.orc": python_only(peer("pyarrow")),
    "impala/max_nesting_depth/orc/struct_map/file.orc": python_only(peer("pyarrow")),
    "impala/out_of_range_timestamp.orc": known(answers.year_1300, timestamp_unit="us", calendar="proleptic"),
    "impala/timestamp_with_local_timezone.orc": known(answers.local_timezone),
    "kylo/userdata1_orc": peer("pyarrow"),
    "orc-dotnet/test.orc": check(answers.check_dotnet),
    "orc-rust/alltypes.lz4.orc": peer("pyarrow"),
    "orc-rust/alltypes.lzo.orc": peer("pyarrow"),
    "orc-rust/alltypes.none.orc": peer("pyarrow"),
    "orc-rust/alltypes.zlib.orc": peer("pyarrow"),
    "orc-rust/bloom_filter.orc": peer("pyarrow"),
    "orc-rust/long_bool.orc": peer("pyarrow"),
    "orc-rust/nested_array.orc": peer("pyarrow"),
    "orc-rust/nested_array_float.orc": peer("pyarrow"),
    "orc-rust/nested_map.orc": peer("pyarrow"),
    "orc-rust/nested_struct.orc": peer("pyarrow"),
    "orc-rust/pyarrow_timestamps.orc": peer("pyarrow"),
    "orc-rust/pyorc_rlev2_patchedbase.orc": peer("pyarrow"),
    "orc-rust/string_dict.orc": peer("pyarrow"),
    "orc-rust/string_dict_gzip.orc": peer("pyarrow"),
    "orc-rust/string_long.orc": peer("pyarrow"),
    "orc-rust/string_long_long.orc": peer("pyarrow"),
    "orc-rust/test.orc": json("orc-rust/expected/test.export_json.out"),
    "orc-rust/timestamps_0001.orc": bytes_only(
        "both peers fail on year 1; hybrid calendar", timestamp_unit="us"
    ),
    "paimon-cpp/append_complex_build_in_fieldid/bucket-0/data-6dac9052-36d8-4950-8f74-b2bbc082e489-0.orc": known(
        answers.paimon_complex
    ),
    "paimon-cpp/append_complex_data/f1=10/bucket-0/data-14a30421-7650-486c-9876-66a1fa4356ff-0.orc": peer(
        "pyarrow"
    ),
    "paimon-cpp/append_with_bitmap_multi_stripes/bucket-0/data-55e21ed3-d118-4d75-a0fd-cd52039cb634-0.orc": peer(
        "pyarrow"
    ),
    "paimon-cpp/append_with_cast_timestamp/bucket-0/data-35109ddd-dec0-4c48-b5f5-11d2a23d5dc0-0.orc": known(
        answers.paimon_cast_timestamp
    ),
    "paimon-cpp/append_with_multiple_ts_precision_and_timezone/bucket-0/data-3f58c403-1672-49a3-93c0-d90cfff9bd8a-0.orc": known(
        answers.paimon_precisions
    ),
    "paimon-cpp/blob_append_table_alter_table_with_cast_with_data_evolution/key0=0/key1=1/bucket-0/data-2b2e00bc-77fd-428d-87d1-8bea1063991c-0.orc": peer(
        "pyarrow"
    ),
    "paimon-cpp/pk_table_nested_type/dt=2025-04-14/hr=10/bucket-1/data-14ebe798-3e13-4f04-a59f-06e302c8cd86-0.orc": peer(
        "pyarrow"
    ),
    "pinot/airlineStats_data.orc": peer("pyarrow"),
    "pxf/automation/orc_list_types.orc": peer("pyarrow"),
    "pxf/automation/orc_types.orc": csv("pxf/expected/automation-orc_types.csv"),
    "pxf/pxf-hdfs/orc_types.orc": json("pxf/expected/orc_types.json"),
    "pxf/pxf-hdfs/orc_types_compound.orc": json("pxf/expected/orc_types_compound.json"),
    "pxf/pxf-hdfs/orc_types_repeated.orc": json("pxf/expected/orc_types_repeated.json"),
    "pxf/pxf-hdfs/simple-bool-array.orc": peer("pyarrow"),
    "seatunnel/e2e.orc": peer("pyarrow"),
    "seatunnel/test.orc": peer("pyarrow"),
    "spark-rapids/V_0_12.orc": peer("pyarrow"),
    "spark-rapids/decimal-test.orc": peer("pyarrow"),
    "spark-rapids/fixed-length-char-column-from-hive.orc": peer("pyarrow"),
    "spark-rapids/schema-can-prune.orc": peer("pyarrow"),
    "spark-rapids/test_orc_varchar.orc": peer("pyarrow"),
    "spark-rapids/timestamp-date-test.orc": peer("pyarrow"),
    "spark-rapids/window-function-test.orc": peer("pyarrow"),
    "spark/alltypesorc": peer("pyarrow"),
    "spark/before_1582_date_v2_4.snappy.orc": known(answers.year_1200),
    "spark/orc_partitioned/b=0/c=0/part-r-00000-829af031-b970-49d6-ad39-30460a0be2c8.orc": peer("pyarrow"),
    "spark/users.orc": peer("pyarrow"),
    "trino-presto/single_int_column/data.orc": peer("pyarrow"),
    "velox/decimal.orc": peer("pyarrow"),
    "velox/dwrf/dict_encoded_strings.orc": refused("Unsupported", "DWRF"),
    "velox/dwrf/struct.orc": refused("Unsupported", "DWRF"),
    "velox/dwrf/upper_complex.orc": refused("Unsupported", "DWRF"),
    "velox/orc_all_type.orc": peer("pyarrow"),
}
