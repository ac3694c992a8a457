-- What version 3 adds: records.
-- Times: microseconds since 1970-01-01T00:00:00Z.
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    expires_at INTEGER,
    UNIQUE (collection, key)
) STRICT;
CREATE INDEX records_by_expiry ON records (collection, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE record_entries (
    record INTEGER NOT NULL REFERENCES records (number),
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (record, version)
) STRICT, WITHOUT ROWID;
INSERT INTO records (collection, key, version, data) VALUES ('uaip', 'k', 1, x'7b7d');
