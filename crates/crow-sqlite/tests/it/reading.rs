//! What the reader reads of sound databases.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{assert_rows, assert_same, columns, expected};
use crow_sqlite::{SqliteFile, SqliteFileError, SqliteValue};
use rusqlite::{Connection, params};
use tempfile::TempDir;

fn create(sql: &str) -> (TempDir, PathBuf, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA synchronous=off").unwrap();
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (folder, path, connection)
}

/// Fills a table with texts and blobs of lengths around every threshold of the format.
fn fill(connection: &Connection, page_size: usize) {
    connection.execute_batch("CREATE TABLE long(a, b TEXT, c BLOB, d); BEGIN").unwrap();
    let mut lengths: Vec<usize> = (0..40).map(|step| step * 13).collect();
    for edge in [page_size / 4, page_size - 40, page_size, 2 * page_size, 5 * page_size] {
        lengths.extend((edge.saturating_sub(40)..edge + 10).step_by(1 + page_size / 4096));
    }
    for (index, length) in lengths.into_iter().enumerate() {
        let text: String = "aé漢😀".chars().cycle().skip(index % 4).take(length / 2).collect();
        let blob: Vec<u8> =
            (0..length).map(|byte| u8::try_from(byte * 31 % 251).unwrap()).collect();
        connection
            .execute(
                "INSERT INTO long VALUES(?, ?, ?, ?)",
                params![i64::try_from(index).unwrap(), text, blob, "end"],
            )
            .unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

#[test]
fn every_kind_of_value_is_read_as_sqlite_reads_it() {
    let (_folder, path, connection) =
        create("CREATE TABLE t(id INTEGER PRIMARY KEY, any, r REAL, i INT, n NUMERIC, s TEXT)");
    let mut numbers = vec![i64::MIN, i64::MIN + 1, i64::MAX, 0, 1, -1];
    for bits in [7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 52, 53, 54, 62] {
        let edge = 1_i64 << bits;
        numbers.extend([edge - 1, edge, edge + 1, -edge - 1, -edge, -edge + 1]);
    }
    let sql = "INSERT INTO t(any, r, i, n, s) VALUES(?1, ?1, ?1, ?1, ?1)";
    for number in numbers {
        connection.execute(sql, [number]).unwrap();
    }
    for number in [0.0, -0.0, 1.0, 1.5, -1e300, f64::INFINITY, f64::MIN_POSITIVE, f64::NAN, 3e15] {
        connection.execute(sql, [number]).unwrap();
    }
    for text in ["", "a", "12", "1.0", "é\0x", "\u{10ffff}"] {
        connection.execute(sql, [text]).unwrap();
        connection.execute(sql, [text.as_bytes()]).unwrap();
    }
    connection.execute(sql, [None::<i64>]).unwrap();
    connection.execute_batch("INSERT INTO t(any) VALUES(CAST(x'61ff62' AS TEXT))").unwrap();
    connection.execute_batch("INSERT INTO t(id) VALUES(-9223372036854775808), (-5)").unwrap();
    connection.execute_batch("INSERT INTO t(id) VALUES(9223372036854775807)").unwrap();
    assert_same(&connection, &path, "t");
}

#[test]
fn long_values_are_read_with_every_page_size_and_auto_vacuum_and_encoding() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        for (vacuum, encoding) in
            [("none", "UTF-8"), ("full", "UTF-16le"), ("incremental", "UTF-16be")]
        {
            let (_folder, path, connection) = create(&format!(
                "PRAGMA page_size={page_size}; PRAGMA auto_vacuum={vacuum};
                 PRAGMA encoding='{encoding}'"
            ));
            fill(&connection, page_size);
            assert_same(&connection, &path, "long");
            connection.execute_batch("DELETE FROM long WHERE a % 3 = 0").unwrap();
            assert_same(&connection, &path, "long");
            connection.execute_batch("PRAGMA incremental_vacuum").unwrap();
            assert_same(&connection, &path, "long");
            connection.execute_batch("VACUUM").unwrap();
            assert_same(&connection, &path, "long");
        }
    }
}

#[test]
fn tables_with_several_levels_of_pages_are_read_in_order_and_by_rowid() {
    let (_folder, path, connection) = create(
        "PRAGMA page_size=512; CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, size INT);
         WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000)
         INSERT INTO t SELECT n * 3 - 150000, 'name ' || n, n * n FROM c",
    );
    assert_same(&connection, &path, "t");
    connection.execute_batch("DELETE FROM t WHERE id % 7 < 5 OR id BETWEEN 0 AND 90000").unwrap();
    assert_same(&connection, &path, "t");
    let file = SqliteFile::open(&path).unwrap();
    let table = file.table("t").unwrap();
    for missing in [0, 1, 90_000, i64::MIN, i64::MAX] {
        assert_eq!(table.row(missing).unwrap(), None);
    }
    connection.execute_batch("DELETE FROM t").unwrap();
    assert_same(&connection, &path, "t");
}

#[test]
fn tables_of_many_columns_are_read_though_the_record_header_is_long() {
    let names: Vec<String> = (0..1900).map(|index| format!("c{index}")).collect();
    let (_folder, path, connection) =
        create(&format!("PRAGMA page_size=512; CREATE TABLE wide({})", names.join(", ")));
    let values: Vec<String> = (0..1900).map(|index| format!("'value {index}'")).collect();
    connection.execute_batch(&format!("INSERT INTO wide VALUES({})", values.join(","))).unwrap();
    let expected = expected(&connection, "wide");
    let file = SqliteFile::open(&path).unwrap();
    let table = file.table("wide").unwrap();
    assert_eq!(crate::common::all_rows(&table, columns(&connection, "wide").len()), expected);
    let row = table.rows_of(&[1700]).next().unwrap().unwrap();
    assert_eq!(row.value(1700), &SqliteValue::Text("value 1700".into()));
}

#[test]
fn columns_are_found_in_any_sql_that_declares_them() {
    let declarations = [
        "CREATE TABLE t(a, b, c)",
        "create table if not exists t ( \"a b\" text , [c,d] int, `e``f` blob, 'g' , \"h\"\"i\" )",
        "CREATE TABLE main.t(a /* , x */, b -- , y (\n, c)",
        "CREATE TABLE t(a DECIMAL(10, 5), b VARCHAR(3) DEFAULT 'x,y)', c CHECK (c IN (10, 20, ')')))",
        "CREATE TABLE t(a, b INTEGER, c, PRIMARY KEY(b))",
        "CREATE TABLE t(a, \"b\" INTEGER, c, CONSTRAINT k PRIMARY KEY(B COLLATE binary DESC))",
        "CREATE TABLE t(a INTEGER PRIMARY KEY DESC, b, c)",
        "CREATE TABLE t(a INT PRIMARY KEY, b, c)",
        "CREATE TABLE t(a INTEGER(8) PRIMARY KEY, b, c)",
        "CREATE TABLE t(a integer constraint k primary key autoincrement, b, c)",
        "CREATE TABLE t(a INTEGER NOT NULL DEFAULT 3 PRIMARY KEY ON CONFLICT FAIL, b, c)",
        "CREATE TABLE t(a, b, c, UNIQUE(a, b) PRIMARY KEY(a, c), CHECK(a <> ','))",
        "CREATE TABLE t(a, b INTEGER, c, UNIQUE(a) PRIMARY KEY(b))",
        "CREATE TABLE t(a REFERENCES u(x) ON DELETE CASCADE, b, c, FOREIGN KEY(a) REFERENCES u)",
        "CREATE TABLE t(a INT, b INT GENERATED ALWAYS AS (a * 2) STORED, c AS (a || ',') VIRTUAL, d)",
        "CREATE TABLE t(a INT, b INT AS (a + 1), c INT AS (a + (1)) STORED UNIQUE, d REAL)",
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c ANY, d REAL) STRICT",
        "CREATE TABLE t(key, type, \"primary\" INT, \"check\", [unique], constraint_ TEXT, désir)",
        "CREATE TABLE t(a FLOATING POINT, b DOUBLE PRECISION, c REAL, d FLOAT BLOB, e \"REAL\")",
        "CREATE TABLE t(a CHARREAL, b \"double\" \"x\", c DEFAULT (1 + 2), d DEFAULT -1.5e+3, e REAL)",
        "CREATE TABLE t(a\u{a0}b, c$1 TEXT, \"\" INT)",
        "CREATE TABLE \"t\"(a TEXT COLLATE NOCASE NOT NULL UNIQUE, b DEFAULT CURRENT_TIMESTAMP, c)",
        "CREATE TABLE t AS SELECT 1 AS a, 'x' AS \"b c\", 2.5 AS d",
    ];
    for declaration in declarations {
        let (_folder, path, connection) =
            create(&format!("PRAGMA foreign_keys=off; {declaration}"));
        let stored: Vec<String> = {
            let sql = "SELECT name FROM pragma_table_xinfo('t') WHERE hidden = 0";
            let mut statement = connection.prepare(sql).unwrap();
            let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            names.map(|name| crate::common::quoted(&name.unwrap())).collect()
        };
        for number in [10, 20] {
            let list: Vec<String> = (0..stored.len()).map(|_| number.to_string()).collect();
            let (names, list) = (stored.join(","), list.join(","));
            let sql = format!("INSERT INTO t({names}) VALUES({list})");
            connection.execute_batch(&sql).unwrap_or_else(|error| {
                panic!("{declaration}: {error}");
            });
        }
        assert_same(&connection, &path, "t");
        assert_same(&connection, &path, "T");
    }
}

#[test]
fn rows_older_than_a_column_have_its_default() {
    let (_folder, path, connection) =
        create("CREATE TABLE t(a, CHECK(a)); INSERT INTO t VALUES(1), (2)");
    let added = [
        "b",
        "c TEXT DEFAULT 'it''s'",
        "d INT DEFAULT 5",
        "e REAL DEFAULT 5",
        "f DEFAULT -7",
        "g TEXT DEFAULT 5",
        "h INT DEFAULT '5'",
        "i BLOB DEFAULT x'00fF'",
        "j DEFAULT TRUE",
        "k DEFAULT FALSE NOT NULL",
        "l NOT NULL DEFAULT 0x1F",
        "m DEFAULT (3)",
        "n DEFAULT +2.5",
        "o REAL DEFAULT '1e3'",
        "p NUMERIC DEFAULT 5.0",
        "q TEXT DEFAULT 2.5",
        "r DEFAULT NULL",
        "s DEFAULT word",
        "t DEFAULT \"two words\" NOT NULL",
        "u INT DEFAULT 'x'",
        "v DEFAULT .5",
        "w DEFAULT 9223372036854775808",
        "x DEFAULT -9223372036854775808",
        "y DEFAULT 1e-3",
        "z INT DEFAULT ' 12 '",
        "aa INT DEFAULT 'inf'",
        "ab TEXT DEFAULT (-3)",
        "ac DEFAULT ''",
        "ad AS (a + 1)",
        "ae INT DEFAULT 10",
    ];
    for column in added {
        connection.execute_batch(&format!("ALTER TABLE t ADD COLUMN {column}")).unwrap();
        assert_same(&connection, &path, "t");
    }
    connection
        .execute_batch("INSERT INTO t(a) VALUES(3); UPDATE t SET c = 'new' WHERE a = 1")
        .unwrap();
    assert_same(&connection, &path, "t");
    connection
        .execute_batch("ALTER TABLE t DROP COLUMN d; ALTER TABLE t RENAME COLUMN f TO ff")
        .unwrap();
    assert_same(&connection, &path, "t");
    connection.execute_batch("ALTER TABLE t RENAME TO \"new name\"").unwrap();
    assert_same(&connection, &path, "new name");
}

#[test]
fn the_list_of_tables_is_a_table() {
    let (_folder, path, connection) = create("CREATE TABLE a(x); CREATE VIEW b AS SELECT 1");
    assert_same(&connection, &path, "sqlite_schema");
    for index in 0..300 {
        connection.execute_batch(&format!("CREATE TABLE t{index}(a, b, c)")).unwrap();
    }
    assert_same(&connection, &path, "sqlite_master");
    assert_same(&connection, &path, "t299");
}

#[test]
fn committed_transactions_in_the_log_count_and_others_do_not() {
    for page_size in [512, 4096, 65536] {
        let (_folder, path, connection) = create(&format!(
            "PRAGMA page_size={page_size}; PRAGMA journal_mode=WAL; PRAGMA cache_size=5;
             PRAGMA wal_autocheckpoint=0"
        ));
        fill(&connection, page_size);
        let before = expected(&connection, "long");
        assert_same(&connection, &path, "long");
        let log_length = || fs::metadata(path.with_extension("db-wal")).unwrap().len();
        let committed_length = log_length();
        connection
            .execute_batch(
                "BEGIN; UPDATE long SET d = zeroblob(3000); DELETE FROM long WHERE a < 50",
            )
            .unwrap();
        assert!(log_length() > committed_length, "the open transaction must be in the log");
        assert_rows(&path, "long", &columns(&connection, "long"), &before);
        connection.execute_batch("COMMIT").unwrap();
        assert_same(&connection, &path, "long");
    }
}

#[test]
fn a_log_that_started_again_after_a_checkpoint_is_read_up_to_its_new_end() {
    let (_folder, path, connection) =
        create("PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    fill(&connection, 1024);
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        connection.execute_batch(&format!("PRAGMA wal_checkpoint({mode})")).unwrap();
        assert_same(&connection, &path, "long");
        for round in 0..3 {
            let sql = format!("UPDATE long SET a = a + 1 WHERE rowid % 50 = {round}");
            connection.execute_batch(&sql).unwrap();
            assert_same(&connection, &path, "long");
        }
    }
    connection.execute_batch("DELETE FROM long WHERE a > 20; VACUUM").unwrap();
    assert_same(&connection, &path, "long");
    connection.execute_batch("PRAGMA journal_mode=DELETE").unwrap();
    assert_same(&connection, &path, "long");
}

#[test]
fn a_transaction_that_is_not_whole_in_the_log_does_not_count() {
    let (folder, path, connection) =
        create("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    connection.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    let mut log = fs::read(path.with_extension("db-wal")).unwrap();
    *log.last_mut().unwrap() ^= 1;
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    fs::write(folder.path().join("copy.db-wal"), &log).unwrap();
    assert_eq!(SqliteFile::open(&copy).unwrap().table("t").unwrap().rows().count(), 1);
}

#[test]
fn a_log_of_either_byte_order_is_read() {
    let (folder, path, connection) =
        create("PRAGMA page_size=512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    fill(&connection, 512);
    let mut log = fs::read(path.with_extension("db-wal")).unwrap();
    // Writes the log again with the checksums of a machine with the other byte order.
    let sum = |sums: &mut [u32; 2], bytes: &[u8]| {
        for pair in bytes.chunks(8) {
            let first = u32::from_be_bytes(pair[..4].try_into().unwrap());
            let second = u32::from_be_bytes(pair[4..].try_into().unwrap());
            sums[0] = sums[0].wrapping_add(first).wrapping_add(sums[1]);
            sums[1] = sums[1].wrapping_add(second).wrapping_add(sums[0]);
        }
    };
    assert_eq!(log[3], 0x82);
    log[3] = 0x83;
    let mut sums = [0; 2];
    sum(&mut sums, &log[..24]);
    log[24..28].copy_from_slice(&sums[0].to_be_bytes());
    log[28..32].copy_from_slice(&sums[1].to_be_bytes());
    for start in (32..log.len()).step_by(536) {
        sum(&mut sums, &log[start..start + 8]);
        sum(&mut sums, &log[start + 24..start + 536]);
        log[start + 16..start + 20].copy_from_slice(&sums[0].to_be_bytes());
        log[start + 20..start + 24].copy_from_slice(&sums[1].to_be_bytes());
    }
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    fs::write(folder.path().join("copy.db-wal"), &log).unwrap();
    assert_same(&connection, &copy, "long");
}

#[test]
fn an_empty_or_invalid_log_counts_as_missing() {
    let (_folder, path, connection) = create("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    for log in [&b""[..], &[0; 31], &[0; 5000], &[0x37; 5000]] {
        fs::write(path.with_extension("db-wal"), log).unwrap();
        let file = SqliteFile::open(&path).unwrap();
        assert_eq!(file.table("t").unwrap().rows().count(), 1);
    }
    drop(connection);
}

/// Opens a database once its last change is long enough ago to be told from a later one.
fn open_unchanged(path: &std::path::Path) -> SqliteFile {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let file = SqliteFile::open(path).unwrap();
        if !file.has_changed().unwrap() {
            return file;
        }
        assert!(Instant::now() < deadline, "it always seems to be changed");
        thread::yield_now();
    }
}

#[test]
fn pages_moved_by_a_checkpoint_during_a_read_are_noticed() {
    let (_folder, path, connection) =
        create("PRAGMA page_size=512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    fill(&connection, 512);
    let file = open_unchanged(&path);
    let table = file.table("long").unwrap();
    let mut rows = table.rows();
    rows.next().unwrap().unwrap();
    assert!(!file.has_changed().unwrap());
    connection.execute_batch("PRAGMA wal_checkpoint(RESTART)").unwrap();
    assert!(file.has_changed().unwrap());
    connection.execute_batch("UPDATE long SET a = a + 1").unwrap();
    let error = rows.find_map(Result::err).unwrap();
    assert!(matches!(error, SqliteFileError::Busy), "{error}");
    assert!(rows.next().is_none());
}

#[test]
fn a_rollback_journal_of_an_unfinished_transaction_means_busy() {
    let (_folder, path, connection) = create("PRAGMA cache_size=5; PRAGMA page_size=512");
    fill(&connection, 512);
    connection.execute_batch("BEGIN; UPDATE long SET d = zeroblob(5000)").unwrap();
    let error = SqliteFile::open(&path).unwrap_err();
    assert!(matches!(error, SqliteFileError::Busy), "{error}");
    connection.execute_batch("ROLLBACK").unwrap();
    assert_same(&connection, &path, "long");
    for mode in ["PERSIST", "TRUNCATE"] {
        connection.execute_batch(&format!("PRAGMA journal_mode={mode}")).unwrap();
        connection.execute_batch("UPDATE long SET d = zeroblob(500)").unwrap();
        assert!(path.with_extension("db-journal").exists());
        assert_same(&connection, &path, "long");
    }
}

#[test]
fn reading_leaves_the_folder_as_it_was() {
    let (folder, path, connection) = create("PRAGMA journal_mode=WAL; CREATE TABLE t(a)");
    let state = || {
        let entries = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let mut state: Vec<_> = entries
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        state.sort();
        state
    };
    let before = state();
    assert_same(&connection, &path, "t");
    assert_eq!(state(), before);
}

#[test]
fn the_log_is_found_beside_the_file_that_a_link_leads_to() {
    let (folder, path, connection) = create("PRAGMA journal_mode=WAL; CREATE TABLE t(a)");
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_same(&connection, &link, "t");
}

fn open_error(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database.db");
    fs::write(&path, bytes).unwrap();
    SqliteFile::open(&path).unwrap_err().to_string()
}

#[test]
fn files_that_are_no_databases_of_a_known_version_are_refused() {
    let (folder, path, _connection) = create("CREATE TABLE t(a)");
    let sound = fs::read(&path).unwrap();
    assert_eq!(open_error(b""), "the file is not a SQLite database");
    assert_eq!(open_error(&[7; 5000]), "the file is not a SQLite database");
    let mut newer = sound.clone();
    newer[19] = 3;
    assert_eq!(open_error(&newer), "the database has the newer format version 3");
    let mut odd = sound.clone();
    odd[16] = 3;
    assert_eq!(open_error(&odd), "the database is damaged at page 1: the page size is invalid");
    let error = SqliteFile::open(folder.path()).unwrap_err().to_string();
    assert_eq!(error, "the file is not a SQLite database");
    let error = SqliteFile::open(&folder.path().join("none")).unwrap_err();
    assert!(matches!(error, SqliteFileError::Io(_)));
}

#[test]
fn names_that_cannot_be_read_are_named_in_the_error() {
    let (_folder, path, _connection) = create(
        "CREATE TABLE t(a, b AS (a)); CREATE VIEW v AS SELECT 1; CREATE INDEX i ON t(a);
         CREATE TABLE w(a PRIMARY KEY, b) WITHOUT ROWID; CREATE VIRTUAL TABLE f USING fts5(x);",
    );
    let file = SqliteFile::open(&path).unwrap();
    let error = |name| file.table(name).unwrap_err().to_string();
    assert_eq!(error("none"), "the database has no table “none”");
    assert_eq!(error("i"), "the database has no table “i”");
    assert_eq!(error("v"), "the view “v” cannot be read");
    assert_eq!(error("f"), "the virtual table “f” cannot be read");
    assert_eq!(error("w"), "the table “w” without rowids cannot be read");
    let table = file.table("T").unwrap();
    assert_eq!(table.column("c").unwrap_err().to_string(), "the table “t” has no column “c”");
    let computed = "the computed column “b” of the table “t” cannot be read";
    assert_eq!(table.column("b").unwrap_err().to_string(), computed);
}

#[test]
fn reads_beside_a_busy_writer_see_whole_transactions_or_notice_the_change() {
    for (mode, pause) in [("wal", 7), ("delete", 45)] {
        let (_folder, path, connection) = create(&format!(
            "PRAGMA page_size=512; PRAGMA journal_mode={mode}; PRAGMA wal_autocheckpoint=1000;
             CREATE TABLE t(round INT, filling TEXT);
             WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300)
             INSERT INTO t SELECT 0, hex(zeroblob(n)) FROM c"
        ));
        let is_over = AtomicBool::new(false);
        let read_once = || -> Result<bool, SqliteFileError> {
            let file = SqliteFile::open(&path)?;
            let rows: Vec<_> = file.table("t")?.rows_of(&[0]).collect::<Result<_, _>>()?;
            if file.has_changed()? {
                return Ok(false);
            }
            assert_eq!(rows.len(), 300);
            assert!(rows.iter().all(|row| row.value(0) == rows[0].value(0)), "{rows:?}");
            Ok(true)
        };
        thread::scope(|scope| {
            // The pauses let readers see states between writes.
            #[expect(
                clippy::disallowed_methods,
                reason = "a thread of its own, without an executor"
            )]
            scope.spawn(|| {
                let start = Instant::now();
                while start.elapsed() < Duration::from_secs(2) {
                    connection.execute_batch("UPDATE t SET round = round + 1").unwrap();
                    thread::sleep(Duration::from_millis(pause));
                }
                is_over.store(true, Ordering::SeqCst);
                drop(connection);
            });
            let mut counts = [0, 0, 0];
            while !is_over.load(Ordering::SeqCst) {
                match read_once() {
                    Ok(true) => counts[0] += 1,
                    Ok(false) => counts[1] += 1,
                    Err(_) => counts[2] += 1,
                }
            }
            assert!(counts[0] > 0);
        });
    }
}

#[test]
fn hostile_sql_is_read_in_bounded_time() {
    for (start, part, end) in [
        ("CREATE TABLE t(a DEFAULT ", "(", ""),
        ("CREATE TABLE t(a DEFAULT ", "(", "1)"),
        ("CREATE TABLE t(a ", "AS()STORED ", ")"),
        ("CREATE TABLE t(a ", "AS(", ")"),
        ("CREATE TABLE t(a", ",a", ")"),
        ("CREATE TABLE t(a INTEGER", ",PRIMARY KEY(b)", ")"),
        ("CREATE TABLE t", "(", ")"),
        ("CREATE TABLE t(a ", "/**/", "'"),
        ("CREATE TABLE t(a ", "''", ")"),
    ] {
        let (_folder, path, connection) = create("CREATE TABLE t(a); PRAGMA writable_schema=on");
        let sql = format!("{start}{}{end}", part.repeat(1_000_000 / part.len()));
        connection.execute("UPDATE sqlite_schema SET sql = ?", [&sql]).unwrap();
        let start = Instant::now();
        let file = SqliteFile::open(&path).unwrap();
        drop(file.table("t").map(|table| table.rows().count()));
        assert!(start.elapsed() < Duration::from_secs(5), "{part}");
    }
}
