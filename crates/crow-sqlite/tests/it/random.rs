//! The reader against random schemas and operations, and against damaged files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{assert_rows, assert_same, expected, quoted};
use crow_sqlite::{SqliteFile, SqliteFileError};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

const TYPES: [&str; 12] = [
    "",
    "INTEGER",
    "TEXT",
    "REAL",
    "BLOB",
    "NUMERIC",
    "VARCHAR(20) NOT NULL DEFAULT 'x'",
    "DOUBLE PRECISION",
    "TEXT COLLATE NOCASE",
    "INT DEFAULT (7)",
    "FLOATING POINT",
    "REAL CHECK (1 OR (2, 3) < (4, 5))",
];

const ADDED: [&str; 8] = [
    "",
    "TEXT DEFAULT 'old'",
    "REAL DEFAULT 4",
    "INT NOT NULL DEFAULT '12'",
    "TEXT DEFAULT -3",
    "BLOB DEFAULT x'ab'",
    "DEFAULT 1.5",
    "NUMERIC DEFAULT 'x'",
];

#[derive(Clone, Debug)]
enum Step {
    Insert(Option<i64>, Vec<Value>, u8),
    Delete(u8, u8),
    Update(u8, Value),
    AddColumn(usize),
    Checkpoint(bool),
    Vacuum,
    Begin,
    Commit,
    Rollback,
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        (-200_i64..200).prop_map(Value::Integer),
        any::<f64>().prop_map(Value::Real),
        (-300_i32..300).prop_map(|number| Value::Real(f64::from(number))),
        "\\PC{0,40}".prop_map(Value::Text),
        (0_usize..6000, "[a-zé漢]{1,5}")
            .prop_map(|(length, text)| Value::Text(text.repeat(length / 5))),
        prop::collection::vec(any::<u8>(), 0..2000).prop_map(Value::Blob),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let rowid = prop::option::weighted(0.3, any::<i64>());
    prop_oneof![
        8 => (rowid, prop::collection::vec(value(), 12), 1_u8..30)
            .prop_map(|(rowid, values, copies)| Step::Insert(rowid, values, copies)),
        2 => (1_u8..10, any::<u8>()).prop_map(|(divisor, rest)| Step::Delete(divisor, rest)),
        2 => (1_u8..10, value()).prop_map(|(divisor, value)| Step::Update(divisor, value)),
        1 => (0..ADDED.len()).prop_map(Step::AddColumn),
        1 => any::<bool>().prop_map(Step::Checkpoint),
        1 => Just(Step::Vacuum),
        1 => Just(Step::Begin),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
    ]
}

/// Does a step; `SQLite` refuses some of them, which is no matter.
fn apply(connection: &Connection, step: &Step, columns: &mut Vec<String>) {
    let run = |sql: &str| connection.execute_batch(sql).is_ok();
    match step {
        Step::Insert(rowid, values, copies) => {
            let count = columns.len().min(values.len());
            let marks = vec!["?"; count].join(", ");
            let names = columns[..count].join(", ");
            for copy in 0..i64::from(*copies) {
                let rowid = rowid.map_or("NULL".into(), |id| id.wrapping_add(copy).to_string());
                let sql = format!("INSERT INTO t(rowid, {names}) VALUES({rowid}, {marks})");
                let _refused =
                    connection.execute(&sql, rusqlite::params_from_iter(&values[..count]));
            }
        }
        Step::Delete(divisor, rest) => {
            run(&format!("DELETE FROM t WHERE abs(rowid % {divisor}) = {}", rest % divisor));
        }
        Step::Update(divisor, value) => {
            let column = &columns[usize::from(*divisor) % columns.len()];
            let sql = format!("UPDATE t SET {column} = ? WHERE rowid % {divisor} = 0");
            let _refused = connection.execute(&sql, [value]);
        }
        Step::AddColumn(kind) => {
            let name = format!("\"added {}\"", columns.len());
            if run(&format!("ALTER TABLE t ADD COLUMN {name} {}", ADDED[*kind])) {
                columns.push(name);
            }
        }
        Step::Checkpoint(restart) => {
            run(if *restart { "PRAGMA wal_checkpoint(RESTART)" } else { "PRAGMA wal_checkpoint" });
        }
        Step::Vacuum => {
            run("PRAGMA incremental_vacuum");
            run("VACUUM");
        }
        Step::Begin => {
            run("BEGIN");
        }
        Step::Commit => {
            run("COMMIT");
        }
        Step::Rollback => {
            run("ROLLBACK");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_tables_read_as_sqlite_reads_them(
        page_size in prop::sample::select(vec![512, 1024, 4096, 65536]),
        vacuum in prop::sample::select(vec!["none", "full", "incremental"]),
        encoding in prop::sample::select(vec!["UTF-8", "UTF-16le", "UTF-16be"]),
        journal in prop::sample::select(vec!["wal", "delete", "persist"]),
        names in prop::collection::hash_set("[a-c \"'`\\[,()é-]{1,6}", 1..8),
        types in prop::collection::vec(0..TYPES.len(), 8),
        key in prop::sample::select(vec!["", ", PRIMARY KEY(", ", UNIQUE("]),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("database.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&format!(
            "PRAGMA page_size={page_size}; PRAGMA auto_vacuum={vacuum}; PRAGMA synchronous=off;
             PRAGMA encoding='{encoding}'; PRAGMA journal_mode={journal}; PRAGMA cache_size=8",
        )).unwrap();
        let mut columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let list: Vec<String> = columns.iter().zip(&types)
            .map(|(name, kind)| format!("{name} {}", TYPES[*kind])).collect();
        let key = if key.is_empty() { String::new() } else { format!("{key}{})", columns[0]) };
        connection.execute_batch(&format!("CREATE TABLE t({}{key})", list.join(", "))).unwrap();
        let mut committed = (crate::common::columns(&connection, "t"), expected(&connection, "t"));
        for step in &steps {
            apply(&connection, step, &mut columns);
            let is_busy = matches!(SqliteFile::open(&path), Err(SqliteFileError::Busy));
            if connection.is_autocommit() {
                prop_assert!(!is_busy);
                assert_same(&connection, &path, "t");
                committed = (crate::common::columns(&connection, "t"), expected(&connection, "t"));
            } else if !is_busy {
                assert_rows(&path, "t", &committed.0, &committed.1);
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % limit.max(1)
    }
}

/// Reads all that can be read, and tells how much came without an error.
fn read_all(path: &Path) -> Result<usize, SqliteFileError> {
    let file = SqliteFile::open(path)?;
    let mut count = 0;
    for name in ["sqlite_schema", "a", "b"] {
        let Ok(table) = file.table(name) else { continue };
        count += table.rows().flatten().count();
        count += table.rows_of(&[0]).flatten().count();
        for rowid in [-1, 1, 7, 150, 299, 1_000_000] {
            count += usize::from(matches!(table.row(rowid), Ok(Some(_))));
        }
    }
    Ok(count)
}

fn sound_files(page_size: usize) -> [Vec<u8>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA page_size={page_size}; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE a(id INTEGER PRIMARY KEY, name TEXT, data BLOB);
             CREATE TABLE b(x TEXT DEFAULT 'y', y REAL);
             WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300)
             INSERT INTO a SELECT n, 'name ' || n, zeroblob(n * 40 % 3000) FROM c;
             INSERT INTO b SELECT name, id FROM a; ALTER TABLE b ADD COLUMN z DEFAULT 3;
             PRAGMA wal_checkpoint(RESTART); UPDATE a SET name = name || '!' WHERE id % 9 = 0;
             DELETE FROM b WHERE rowid > 250;"
        ))
        .unwrap();
    [path.clone(), path.with_extension("db-wal")].map(|path| fs::read(path).unwrap())
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        // Half of the changes hit the beginnings of pages, where the structure is.
        let mut position = random.below(bytes.len());
        if random.below(2) == 0 {
            position = position / 512 * 512 + random.below(16);
        }
        let change = u8::try_from(random.below(256)).unwrap();
        match bytes.get_mut(position) {
            Some(byte) if random.below(2) == 0 => *byte = change,
            Some(byte) => *byte ^= 1 << (change % 8),
            None => {}
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(random.below(bytes.len()));
    }
}

#[test]
fn damaged_databases_and_logs_give_errors_or_rows_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database.db");
    let log_path = path.with_extension("db-wal");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let rounds = 1500;
    let sound = [512, 1024].map(sound_files);
    fs::write(&path, &sound[0][0]).unwrap();
    fs::write(&log_path, &sound[0][1]).unwrap();
    let complete = read_all(&path).unwrap();
    assert!(complete > 1100, "{complete}");
    let (mut partial, mut slowest) = (0, Duration::ZERO);
    for round in 0..rounds {
        let [mut database, mut log] = sound[round % 2].clone();
        match random.below(4) {
            0 => damage(&mut log, &mut random),
            1 => {
                damage(&mut database, &mut random);
                damage(&mut log, &mut random);
            }
            _ => damage(&mut database, &mut random),
        }
        fs::write(&path, &database).unwrap();
        fs::write(&log_path, if random.below(3) == 0 { &[] } else { log.as_slice() }).unwrap();
        let start = Instant::now();
        if let Ok(count) = read_all(&path) {
            partial += usize::from(count < complete);
        }
        slowest = slowest.max(start.elapsed());
        assert!(slowest < Duration::from_secs(5), "round {round} took {slowest:?}");
    }
    assert!(partial > 0);
}
