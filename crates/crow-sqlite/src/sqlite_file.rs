//! Reads the tables of a `SQLite` database file without linking `SQLite` and without writing or
//! locking any file, so that another program's database can be read while that program runs.
//!
//! A database is an array of pages. A page is read when it is needed: from the write-ahead log
//! beside the file if a committed transaction wrote it there, else from the file. A table is a
//! tree of pages ordered by rowid; a row too long for its page goes on in a chain of further
//! pages. Nothing read is trusted: every position is checked, and every walk is bounded by the
//! number of pages. No lock keeps the other program from moving pages during a read;
//! [`SqliteFile::has_changed`] tells afterwards whether that may have happened.
//!
//! Closing a file drops every advisory lock of this process on it, so a process that has the
//! same database open through `SQLite` itself must not use this reader on it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use crate::sqlite_record::{
    Column, MOST_COLUMNS, SqliteEncoding, SqliteValue, TableDefinition, decode_value, read_varint,
    stored_length,
};

/// A reason why a database could not be read.
#[derive(Debug)]
pub enum SqliteFileError {
    /// The operating system could not read a file.
    Io(io::Error),
    /// The file is no `SQLite` database, or it is encrypted or empty.
    NotADatabase,
    /// The file has a format that is newer than this reader.
    Newer { version: u32 },
    /// The content contradicts itself.
    Damaged { page: u32, why: &'static str },
    /// The database has no such table.
    NoTable { name: String },
    /// The table has no such column.
    NoColumn { table: String, column: String },
    /// The database uses something that this reader does not read.
    Unsupported { what: String },
    /// Another program is writing the database, so that it has to be opened again later.
    Busy,
}

impl fmt::Display for SqliteFileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "the database cannot be read: {error}"),
            Self::NotADatabase => formatter.write_str("the file is not a SQLite database"),
            Self::Newer { version } => {
                write!(formatter, "the database has the newer format version {version}")
            }
            Self::Damaged { page, why } => {
                write!(formatter, "the database is damaged at page {page}: {why}")
            }
            Self::NoTable { name } => write!(formatter, "the database has no table “{name}”"),
            Self::NoColumn { table, column } => {
                write!(formatter, "the table “{table}” has no column “{column}”")
            }
            Self::Unsupported { what } => write!(formatter, "{what} cannot be read"),
            Self::Busy => formatter.write_str("the database is being written"),
        }
    }
}

impl std::error::Error for SqliteFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for SqliteFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

type Result<T, E = SqliteFileError> = std::result::Result<T, E>;

fn damaged<T>(page: u32, why: &'static str) -> Result<T> {
    Err(SqliteFileError::Damaged { page, why })
}

const HEADER_LENGTH: usize = 100;
/// The most bytes that are read for the values of one row.
const LONGEST_ROW: u64 = 256 << 20;
const LONGEST_RECORD_HEADER: usize = 9 * (MOST_COLUMNS + 1);
const LONGEST_SQL: usize = 1 << 20;
const DEEPEST_TREE: usize = 64;
const COARSEST_CLOCK: Duration = Duration::from_millis(20);
const SCHEMA_TABLE: &str =
    "CREATE TABLE sqlite_schema(type text, name text, tbl_name text, rootpage integer, sql text)";

/// A `SQLite` database that is open for reading.
#[derive(Debug)]
pub struct SqliteFile {
    path: PathBuf,
    database: File,
    log: Option<WriteAheadLog>,
    page_size: u32,
    /// The bytes of a page that hold content; the others are reserved for extensions.
    usable: usize,
    page_count: u32,
    encoding: SqliteEncoding,
    opened_at: SystemTime,
    /// The length and the time of the last change, when the file was opened.
    first_state: (u64, Option<SystemTime>),
}

impl SqliteFile {
    /// Opens a database and the write-ahead log beside it (`PATH-wal`), if there is one.
    ///
    /// The committed transactions in the log count, others do not.
    pub fn open(path: &Path) -> Result<Self> {
        // The log lies beside the file that a symbolic link leads to.
        let path = fs::canonicalize(path)?;
        let Some(database) = open_file(&path)? else { return Err(SqliteFileError::NotADatabase) };
        let (opened_at, first_state) = (SystemTime::now(), state_of(&database)?);
        if has_hot_journal(&path)? {
            return Err(SqliteFileError::Busy);
        }
        let mut header = [0; HEADER_LENGTH];
        if !read_whole(&database, &mut header, 0)? || !header.starts_with(b"SQLite format 3\0") {
            return Err(SqliteFileError::NotADatabase);
        }
        let page_size = match u32::from(be_u16(&header, 16)) {
            1 => 65_536,
            size if size.is_power_of_two() && size >= 512 => size,
            _ => return damaged(1, "the page size is invalid"),
        };
        let log = WriteAheadLog::open(&beside(&path, "-wal"))?;
        if log.as_ref().is_some_and(|log| log.page_size != page_size) {
            return damaged(1, "the page size differs from the one of the write-ahead log");
        }
        let page_count = match &log {
            Some(log) => log.page_count,
            None => u32::try_from(first_state.0.div_ceil(u64::from(page_size))).unwrap_or(u32::MAX),
        };
        let mut file = Self {
            path,
            database,
            log,
            page_size,
            usable: 0,
            page_count,
            encoding: SqliteEncoding::Utf8,
            opened_at,
            first_state,
        };
        // The log may hold a newer first page.
        file.read_part(1, 0, &mut header)?;
        file.read_header(&header)?;
        Ok(file)
    }

    fn read_header(&mut self, header: &[u8; HEADER_LENGTH]) -> Result<()> {
        for (version, newest) in [(u32::from(header[19]), 2), (be_u32(header, 44), 4)] {
            if version > newest {
                return Err(SqliteFileError::Newer { version });
            }
        }
        if u32::from(be_u16(header, 16)) != self.page_size % 65_536 + self.page_size / 65_536 {
            return damaged(1, "the page size differs from the one of the write-ahead log");
        }
        self.usable = to_index(u64::from(self.page_size)).saturating_sub(usize::from(header[20]));
        if self.usable < 480 || header[21..24] != [64, 32, 32] {
            return damaged(1, "the header is invalid");
        }
        self.encoding = match be_u32(header, 56) {
            0 | 1 => SqliteEncoding::Utf8,
            2 => SqliteEncoding::Utf16Little,
            3 => SqliteEncoding::Utf16Big,
            _ => return damaged(1, "the text encoding is invalid"),
        };
        Ok(())
    }

    /// Returns the table of this name, in which the case of ASCII letters does not matter.
    ///
    /// The list of tables is itself a table, named `sqlite_schema`.
    pub fn table(&self, name: &str) -> Result<SqliteTable<'_>> {
        let schema = self.define_table("sqlite_schema", 1, SCHEMA_TABLE)?;
        if ["sqlite_schema", "sqlite_master"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Ok(schema);
        }
        for row in schema.rows() {
            let row = row?;
            let (SqliteValue::Text(kind), SqliteValue::Text(found)) = (row.value(0), row.value(1))
            else {
                continue;
            };
            if !found.eq_ignore_ascii_case(name) || !matches!(kind.as_str(), "table" | "view") {
                continue;
            }
            if kind == "view" {
                return Err(SqliteFileError::Unsupported {
                    what: format!("the view “{found}”")
                });
            }
            return match (row.value(3), row.value(4)) {
                (SqliteValue::Integer(0), _) => {
                    let what = format!("the virtual table “{found}”");
                    Err(SqliteFileError::Unsupported { what })
                }
                (SqliteValue::Integer(root), SqliteValue::Text(sql)) => {
                    self.define_table(found, u32::try_from(*root).unwrap_or(0), sql)
                }
                _ => damaged(1, "a table has no root page or no SQL"),
            };
        }
        Err(SqliteFileError::NoTable { name: name.to_owned() })
    }

    fn define_table(&self, name: &str, root: u32, sql: &str) -> Result<SqliteTable<'_>> {
        let sql = Some(sql).filter(|sql| sql.len() <= LONGEST_SQL);
        let Some(definition) = sql.and_then(TableDefinition::parse) else {
            return damaged(1, "the SQL of a table is incomplete or too long");
        };
        if definition.is_without_rowid {
            let what = format!("the table “{name}” without rowids");
            return Err(SqliteFileError::Unsupported { what });
        }
        Ok(SqliteTable { file: self, name: name.to_owned(), root, columns: definition.columns })
    }

    /// Tells whether the file may have been written since it was opened.
    ///
    /// If it was, rows read since then may mix two states of the database: open it and read them
    /// again. Transactions that are only in the write-ahead log do not count, since they do not
    /// change the file that is read.
    pub fn has_changed(&self) -> Result<bool> {
        // The time of a change is as coarse as the clock of the system, so that a change shortly
        // after another one does not show.
        let age =
            self.first_state.1.and_then(|changed| self.opened_at.duration_since(changed).ok());
        let is_recent = age.is_some_and(|age| age < COARSEST_CLOCK);
        Ok(is_recent
            || state_of(&self.database)? != self.first_state
            || has_hot_journal(&self.path)?)
    }

    /// Fills a buffer with the bytes of a page from an offset on.
    fn read_part(&self, page: u32, offset: usize, into: &mut [u8]) -> Result<()> {
        if page == 0 || page > self.page_count {
            return damaged(page, "a link leads to a page outside the database");
        }
        if let Some(log) = &self.log
            && let Some(frame) = log.frames.get(&page)
        {
            return log.read_part(page, *frame, offset, into);
        }
        let start = u64::from(page - 1) * u64::from(self.page_size) + to_position(offset);
        if read_whole(&self.database, into, start)? {
            return Ok(());
        }
        damaged(page, "the file ends before the page does")
    }

    fn read_tree_page(&self, number: u32) -> Result<TreePage> {
        let mut bytes = vec![0; self.usable];
        self.read_part(number, 0, &mut bytes)?;
        let header = if number == 1 { HEADER_LENGTH } else { 0 };
        let is_leaf = match bytes[header] {
            0x05 => false,
            0x0d => true,
            _ => return damaged(number, "it is not a page of a table"),
        };
        let cell_count = usize::from(be_u16(&bytes, header + 3));
        let pointers = header + if is_leaf { 8 } else { 12 };
        if pointers + 2 * cell_count > bytes.len() {
            return damaged(number, "it has too many cells");
        }
        Ok(TreePage { number, bytes, is_leaf, header, pointers, cell_count })
    }

    /// The largest number of pages that a walk can meet, whatever the database says its size is.
    fn most_pages(&self) -> u64 {
        let in_log = self.log.as_ref().map_or(0, |log| to_position(log.frames.len()));
        self.first_state.0 / u64::from(self.page_size) + in_log + 1
    }
}

/// A table of a database.
#[derive(Debug)]
pub struct SqliteTable<'a> {
    file: &'a SqliteFile,
    name: String,
    root: u32,
    columns: Vec<Column>,
}

impl SqliteTable<'_> {
    /// Returns the position of a column in the SQL that created the table.
    pub fn column(&self, name: &str) -> Result<usize> {
        let position = self.columns.iter().position(|one| one.name.eq_ignore_ascii_case(name));
        match position {
            Some(position) if self.columns[position].is_virtual => {
                let what = format!("the computed column “{name}” of the table “{}”", self.name);
                Err(SqliteFileError::Unsupported { what })
            }
            Some(position) => Ok(position),
            None => {
                let (table, column) = (self.name.clone(), name.to_owned());
                Err(SqliteFileError::NoColumn { table, column })
            }
        }
    }

    /// Returns all rows in the order of their rowids; each is read when it is asked for.
    ///
    /// Nothing follows an error.
    pub fn rows(&self) -> impl Iterator<Item = Result<SqliteRow>> {
        self.rows_with(vec![true; self.columns.len()])
    }

    /// Returns all rows like [`SqliteTable::rows`], but reads only the columns at these
    /// positions; every other column is null.
    ///
    /// Long values in columns after the last of these cost nothing.
    pub fn rows_of(&self, columns: &[usize]) -> impl Iterator<Item = Result<SqliteRow>> {
        self.rows_with((0..self.columns.len()).map(|index| columns.contains(&index)).collect())
    }

    fn rows_with(&self, wanted: Vec<bool>) -> Rows<'_> {
        let pages_left = self.file.most_pages();
        Rows {
            table: self,
            wanted,
            root: Some(self.root),
            path: vec![],
            pages_left,
            previous: None,
        }
    }

    /// Returns the row with this rowid.
    pub fn row(&self, rowid: i64) -> Result<Option<SqliteRow>> {
        let mut number = self.root;
        for _ in 0..DEEPEST_TREE {
            let page = self.file.read_tree_page(number)?;
            // Finds the first cell whose rowid is not smaller.
            let (mut low, mut high) = (0, page.cell_count);
            while low < high {
                let middle = usize::midpoint(low, high);
                if page.cell(middle)?.rowid < rowid { low = middle + 1 } else { high = middle }
            }
            if !page.is_leaf {
                number = page.child(low)?;
                continue;
            }
            if low == page.cell_count || page.cell(low)?.rowid != rowid {
                return Ok(None);
            }
            let wanted = vec![true; self.columns.len()];
            return self.read_row(&page, low, &wanted, &mut self.file.most_pages()).map(Some);
        }
        damaged(number, "the tree of the table is too deep")
    }

    fn read_row(
        &self,
        page: &TreePage,
        index: usize,
        wanted: &[bool],
        pages_left: &mut u64,
    ) -> Result<SqliteRow> {
        let Cell { rowid, length, content } = page.cell(index)?;
        let mut payload = Payload::new(self.file, page.number, length, content)?;
        let invalid = || SqliteFileError::Damaged { page: page.number, why: "a row is invalid" };
        // A record is its header, which begins with its own length and has one serial type for
        // each stored column, and then the values, one after the other.
        let (header_length, mut position) = read_varint(payload.local).ok_or_else(invalid)?;
        let header_length = to_index(header_length);
        if header_length > LONGEST_RECORD_HEADER || header_length < position {
            return Err(invalid());
        }
        let header = payload.read(0, header_length)?;
        let mut start = to_position(header_length);
        let mut read = 0;
        let mut values = Vec::with_capacity(self.columns.len());
        let used = wanted.iter().rposition(|wanted| *wanted).map_or(0, |last| last + 1);
        for (column, wanted) in self.columns.iter().zip(wanted).take(used) {
            if column.is_virtual {
                values.push(SqliteValue::Null);
                continue;
            }
            let Some(rest) = header.get(position..).filter(|rest| !rest.is_empty()) else {
                // The column was added after this row was written.
                values.push(if *wanted { column.default.clone() } else { SqliteValue::Null });
                continue;
            };
            let (serial_type, type_length) = read_varint(rest).ok_or_else(invalid)?;
            let value_length = stored_length(serial_type).ok_or_else(invalid)?;
            position += type_length;
            if !wanted {
                values.push(SqliteValue::Null);
            } else if column.is_rowid {
                values.push(SqliteValue::Integer(rowid));
            } else {
                if start.saturating_add(value_length) > length {
                    return Err(invalid());
                }
                read += value_length;
                if read > LONGEST_ROW {
                    let what = format!("a row of more than 256 MiB in the table “{}”", self.name);
                    return Err(SqliteFileError::Unsupported { what });
                }
                let bytes = payload.read(to_index(start), to_index(value_length))?;
                let value = decode_value(serial_type, bytes, self.file.encoding);
                values.push(column.read_as(value));
            }
            start = start.checked_add(value_length).ok_or_else(invalid)?;
        }
        values.resize(self.columns.len(), SqliteValue::Null);
        // No two rows share a page of their chains.
        let Some(left) = pages_left.checked_sub(to_position(payload.index)) else {
            return damaged(page.number, "the rows are longer than the database");
        };
        *pages_left = left;
        Ok(SqliteRow { rowid, values })
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct SqliteRow {
    /// The number that identifies the row in its table.
    pub rowid: i64,
    values: Vec<SqliteValue>,
}

impl SqliteRow {
    /// Returns the value of the column at this position; null if there is none.
    pub fn value(&self, index: usize) -> &SqliteValue {
        self.values.get(index).unwrap_or(&SqliteValue::Null)
    }

    /// Takes the value of the column at this position out of the row and leaves null.
    pub fn take(&mut self, index: usize) -> SqliteValue {
        self.values.get_mut(index).map(std::mem::take).unwrap_or_default()
    }
}

/// A walk through all rows of a table.
struct Rows<'a> {
    table: &'a SqliteTable<'a>,
    wanted: Vec<bool>,
    /// The root page before the walk begins.
    root: Option<u32>,
    /// The pages from the root to the current leaf, each with the index of its next cell.
    path: Vec<(TreePage, usize)>,
    pages_left: u64,
    previous: Option<i64>,
}

impl Rows<'_> {
    fn descend(&mut self, number: u32) -> Result<()> {
        // A tree with a cycle or with shared pages runs out of pages at the latest.
        if self.path.len() >= DEEPEST_TREE || self.pages_left == 0 {
            return damaged(number, "the tree of the table is too deep or has a cycle");
        }
        self.pages_left -= 1;
        self.path.push((self.table.file.read_tree_page(number)?, 0));
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<SqliteRow>> {
        if let Some(root) = self.root.take() {
            self.descend(root)?;
        }
        while let Some((page, next)) = self.path.last_mut() {
            let index = *next;
            *next += 1;
            if page.is_leaf && index < page.cell_count {
                let row = self.table.read_row(page, index, &self.wanted, &mut self.pages_left)?;
                if self.previous.is_some_and(|previous| previous >= row.rowid) {
                    return damaged(page.number, "the rows are not in order");
                }
                self.previous = Some(row.rowid);
                return Ok(Some(row));
            } else if !page.is_leaf && index <= page.cell_count {
                let child = page.child(index)?;
                self.descend(child)?;
            } else {
                self.path.pop();
            }
        }
        Ok(None)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<SqliteRow>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.advance();
        if row.is_err() {
            self.path.clear();
        }
        row.transpose()
    }
}

/// A page of the tree of a table.
#[derive(Debug)]
struct TreePage {
    number: u32,
    bytes: Vec<u8>,
    is_leaf: bool,
    /// Where the header of the page begins.
    header: usize,
    /// Where the positions of the cells begin.
    pointers: usize,
    cell_count: usize,
}

/// A row in a leaf, or the link to a page of rows up to `rowid`, which has no content.
struct Cell<'a> {
    rowid: i64,
    length: u64,
    content: &'a [u8],
}

impl TreePage {
    fn cell_bytes(&self, index: usize) -> Result<&[u8]> {
        let start = usize::from(be_u16(&self.bytes, self.pointers + 2 * index));
        if start < self.pointers + 2 * self.cell_count || start + 4 > self.bytes.len() {
            return damaged(self.number, "a cell lies outside the page");
        }
        Ok(&self.bytes[start..])
    }

    fn cell(&self, index: usize) -> Result<Cell<'_>> {
        let bytes = self.cell_bytes(index)?;
        // In a leaf the length of the row comes first, else the four bytes of the link.
        let length = if self.is_leaf { read_varint(bytes) } else { Some((0, 4)) };
        let cell = length.and_then(|(length, start)| {
            let (rowid, rowid_length) = read_varint(&bytes[start..])?;
            let content = &bytes[start + rowid_length..];
            Some(Cell { rowid: rowid.cast_signed(), length, content })
        });
        cell.map_or_else(|| damaged(self.number, "a cell is cut off"), Ok)
    }

    /// Returns the page of the rows up to the cell at this index, or of all rows after the last.
    fn child(&self, index: usize) -> Result<u32> {
        if index == self.cell_count {
            return Ok(be_u32(&self.bytes, self.header + 8));
        }
        Ok(be_u32(self.cell_bytes(index)?, 0))
    }
}

/// The bytes of a row, of which the first are in its leaf and the others in a chain of pages.
///
/// Reads go forward only, as far as they need the chain.
struct Payload<'a> {
    file: &'a SqliteFile,
    leaf: u32,
    length: u64,
    local: &'a [u8],
    /// The current page of the chain; its index in the chain; and its content once it is needed.
    page: u32,
    index: usize,
    content: Vec<u8>,
    /// An earlier page of the chain, which must not come again.
    mark: u32,
}

impl<'a> Payload<'a> {
    fn new(file: &'a SqliteFile, leaf: u32, length: u64, cell: &'a [u8]) -> Result<Self> {
        if length / u64::from(file.page_size) > file.most_pages() {
            return damaged(leaf, "a row is longer than the database");
        }
        // The format fixes how much of a long row stays in the leaf.
        let total = to_index(length);
        let (usable, most) = (file.usable, file.usable - 35);
        let local_length = if total <= most {
            total
        } else {
            let least = (usable - 12) * 32 / 255 - 23;
            let filling = least + (total - least) % (usable - 4);
            if filling <= most { filling } else { least }
        };
        let Some((local, after)) = cell.split_at_checked(local_length) else {
            return damaged(leaf, "a row is cut off");
        };
        let page = match after.first_chunk() {
            Some(link) if total > most => u32::from_be_bytes(*link),
            None if total > most => return damaged(leaf, "a row is cut off"),
            _ => 0,
        };
        Ok(Self { file, leaf, length, local, page, index: 0, content: vec![], mark: page })
    }

    fn read(&mut self, start: usize, length: usize) -> Result<Cow<'a, [u8]>> {
        let end = start.saturating_add(length);
        if to_position(end) > self.length {
            return damaged(self.leaf, "a value goes beyond its row");
        }
        if let Some(bytes) = self.local.get(start..end) {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(self.local.get(start..).unwrap_or_default());
        while bytes.len() < length {
            // A page of a chain has the number of the next one and then content.
            let position = start + bytes.len() - self.local.len();
            let room = self.file.usable - 4;
            while self.index < position / room {
                self.follow()?;
            }
            if self.content.is_empty() {
                self.content.resize(self.file.usable, 0);
                self.file.read_part(self.page, 0, &mut self.content)?;
            }
            let rest = &self.content[4 + position % room..];
            bytes.extend_from_slice(&rest[..rest.len().min(length - bytes.len())]);
        }
        Ok(Cow::Owned(bytes))
    }

    fn follow(&mut self) -> Result<()> {
        let mut link = [0; 4];
        match self.content.first_chunk() {
            Some(read) => link = *read,
            None => self.file.read_part(self.page, 0, &mut link)?,
        }
        let next = u32::from_be_bytes(link);
        if next == 0 || next == self.mark {
            return damaged(self.page, "the chain of a long row ends early or has a cycle");
        }
        self.page = next;
        self.index += 1;
        self.content.clear();
        // Moving the mark ever more rarely finds a cycle of any length.
        if self.index.is_power_of_two() {
            self.mark = next;
        }
        Ok(())
    }
}

/// The log beside a database, to which transactions are written before they reach the database.
#[derive(Debug)]
struct WriteAheadLog {
    file: File,
    page_size: u32,
    /// Numbers that a log has until it starts again from its beginning.
    salts: [u8; 8],
    /// The position of the newest committed content of each page.
    frames: HashMap<u32, u64>,
    page_count: u32,
}

impl WriteAheadLog {
    const HEADER_LENGTH: usize = 32;
    const FRAME_HEADER_LENGTH: usize = 24;

    /// Finds the committed pages; a log without any counts as missing.
    fn open(path: &Path) -> Result<Option<Self>> {
        let Some(file) = open_file(path)? else { return Ok(None) };
        let mut header = [0; Self::HEADER_LENGTH];
        if !read_whole(&file, &mut header, 0)? {
            return Ok(None);
        }
        let (magic, page_size) = (be_u32(&header, 0), be_u32(&header, 8));
        let is_big_endian = magic & 1 == 1;
        let mut sums = checksum([0, 0], &header[..24], is_big_endian);
        let is_valid = magic & !1 == 0x377f_0682
            && page_size.is_power_of_two()
            && (512..=65_536).contains(&page_size)
            && sums == [be_u32(&header, 24), be_u32(&header, 28)];
        if !is_valid {
            return Ok(None);
        }
        if be_u32(&header, 4) != 3_007_000 {
            return Err(SqliteFileError::Newer { version: be_u32(&header, 4) });
        }
        let mut salts = [0; 8];
        salts.copy_from_slice(&header[16..24]);
        let mut log = Self { file, page_size, salts, frames: HashMap::new(), page_count: 0 };
        let mut frame = vec![0; Self::FRAME_HEADER_LENGTH + to_index(u64::from(page_size))];
        let mut position = to_position(Self::HEADER_LENGTH);
        let mut uncommitted = Vec::new();
        // The log ends at the first frame that is not of this round or that is not whole: each
        // checksum covers all frames before it.
        while read_whole(&log.file, &mut frame, position)? {
            let (page, page_count) = (be_u32(&frame, 0), be_u32(&frame, 4));
            let (frame_header, content) = frame.split_at(Self::FRAME_HEADER_LENGTH);
            sums = checksum(sums, &frame_header[..8], is_big_endian);
            sums = checksum(sums, content, is_big_endian);
            let is_whole = sums == [be_u32(&frame, 16), be_u32(&frame, 20)];
            if page == 0 || frame[8..16] != salts || !is_whole {
                break;
            }
            uncommitted.push((page, position));
            if page_count != 0 {
                log.page_count = page_count;
                log.frames.extend(uncommitted.drain(..));
            }
            position += to_position(frame.len());
        }
        Ok(if log.page_count == 0 { None } else { Some(log) })
    }

    fn read_part(&self, page: u32, frame: u64, offset: usize, into: &mut [u8]) -> Result<()> {
        let start = frame + to_position(Self::FRAME_HEADER_LENGTH + offset);
        let is_read = read_whole(&self.file, into, start)?;
        // A log that starts again overwrites the header of a frame before its content, so a header
        // that is read afterwards and is still the same proves the content.
        let mut header = [0; 16];
        let is_same = read_whole(&self.file, &mut header, frame)?
            && be_u32(&header, 0) == page
            && header[8..] == self.salts;
        if is_read && is_same { Ok(()) } else { Err(SqliteFileError::Busy) }
    }
}

/// Adds bytes to the two sums that a write-ahead log keeps over its content.
fn checksum([mut first, mut second]: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    let from_bytes = if is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    for [a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
        first = first.wrapping_add(from_bytes([*a, *b, *c, *d])).wrapping_add(second);
        second = second.wrapping_add(from_bytes([*e, *f, *g, *h])).wrapping_add(first);
    }
    [first, second]
}

/// Opens a regular file, if there is one; a pipe would block.
fn open_file(path: &Path) -> io::Result<Option<File>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Tells whether a transaction has begun to change the file, which its journal would undo.
fn has_hot_journal(path: &Path) -> Result<bool> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let Some(journal) = open_file(&beside(path, "-journal"))? else { return Ok(false) };
    let mut start = [0; 8];
    Ok(read_whole(&journal, &mut start, 0)? && start == MAGIC)
}

/// Fills the buffer, or returns false if the file ends before.
fn read_whole(file: &File, into: &mut [u8], position: u64) -> io::Result<bool> {
    match file.read_exact_at(into, position) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}

fn state_of(file: &File) -> io::Result<(u64, Option<SystemTime>)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified().ok()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn be_u16(bytes: &[u8], position: usize) -> u16 {
    u16::from_be_bytes([bytes[position], bytes[position + 1]])
}

fn be_u32(bytes: &[u8], position: usize) -> u32 {
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| bytes[position + index]);
    u32::from_be_bytes([a, b, c, d])
}

/// Converts a length; one that no memory can hold becomes one that every check refuses.
fn to_index(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn to_position(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
