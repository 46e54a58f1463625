//! Compares what the reader says with what `SQLite` itself says.

use std::path::Path;

use crow_sqlite::{SqliteFile, SqliteRow, SqliteTable, SqliteValue};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

pub(crate) type Rows = Vec<(i64, Vec<SqliteValue>)>;

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn value_of(value: ValueRef<'_>) -> SqliteValue {
    match value {
        ValueRef::Null => SqliteValue::Null,
        ValueRef::Integer(number) => SqliteValue::Integer(number),
        ValueRef::Real(number) => SqliteValue::Real(number),
        ValueRef::Text(text) => SqliteValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqliteValue::Blob(bytes.to_vec()),
    }
}

/// The names of the columns and whether each is computed when it is read.
pub(crate) fn columns(connection: &Connection, table: &str) -> Vec<(String, bool)> {
    let mut statement =
        connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)").unwrap();
    let rows =
        statement.query_map([table], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? == 2))).unwrap();
    rows.map(Result::unwrap).collect()
}

pub(crate) fn expected(connection: &Connection, table: &str) -> Rows {
    let names = columns(connection, table);
    let list: Vec<_> = names
        .iter()
        .map(|(name, is_virtual)| if *is_virtual { "NULL".into() } else { quoted(name) })
        .collect();
    let table = quoted(table);
    let sql = format!("SELECT _rowid_, {} FROM {table} ORDER BY _rowid_", list.join(", "));
    let mut statement = connection.prepare(&sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let values = (1..=names.len()).map(|index| value_of(row.get_ref(index).unwrap()));
        all.push((row.get(0).unwrap(), values.collect()));
    }
    all
}

pub(crate) fn values(row: &SqliteRow, count: usize) -> Vec<SqliteValue> {
    (0..count).map(|index| row.value(index).clone()).collect()
}

pub(crate) fn all_rows(table: &SqliteTable<'_>, count: usize) -> Rows {
    table.rows().map(|row| row.unwrap()).map(|row| (row.rowid, values(&row, count))).collect()
}

/// Asserts that the reader gives the rows that `SQLite` gives, in each of the ways to read them.
pub(crate) fn assert_same(connection: &Connection, path: &Path, table: &str) {
    let expected = expected(connection, table);
    assert_rows(path, table, &columns(connection, table), &expected);
}

pub(crate) fn assert_rows(path: &Path, table: &str, names: &[(String, bool)], expected: &Rows) {
    let file = SqliteFile::open(path).unwrap();
    let read = file.table(table).unwrap();
    for (index, (name, is_virtual)) in names.iter().enumerate() {
        if !is_virtual {
            assert_eq!(read.column(name).unwrap(), index, "{name}");
        }
    }
    let rows = all_rows(&read, names.len());
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row.0, expected.0);
        for (index, (value, expected)) in row.1.iter().zip(&expected.1).enumerate() {
            let (value, expected) = (format!("{value:?}"), format!("{expected:?}"));
            let name = &names[index].0;
            assert!(value == expected, "{name}: {value:.200}, but should be {expected:.200}");
        }
    }
    for (rowid, expected) in expected.iter().step_by(1 + expected.len() / 200) {
        let row = read.row(*rowid).unwrap().unwrap();
        assert_eq!((row.rowid, values(&row, names.len())), (*rowid, expected.clone()));
    }
    for index in 0..names.len() {
        for (row, expected) in read.rows_of(&[index]).zip(expected) {
            let row = row.unwrap();
            for other in 0..names.len() {
                let wanted = if other == index { &expected.1[index] } else { &SqliteValue::Null };
                assert_eq!(row.value(other), wanted);
            }
        }
    }
}
