-- What version 3 adds: records.
CREATE TABLE turntree_records (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    data bytea NOT NULL,
    expires_at bigint,
    UNIQUE (collection, key)
);
CREATE INDEX turntree_records_expiry ON turntree_records (collection, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE turntree_record_entries (
    record bigint NOT NULL REFERENCES turntree_records (number) ON DELETE CASCADE,
    version bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (record, version)
);
INSERT INTO turntree_records (collection, key, version, data) VALUES ('uaip', 'k', 1, '\x7b7d');
UPDATE turntree_schema SET version = 3;
