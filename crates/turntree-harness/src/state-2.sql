-- The machine of `pid`, and whether the process was seen twice.
ALTER TABLE agent ADD COLUMN host TEXT;
ALTER TABLE agent ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 0;
-- The lines that an agent changes, as [[first, last], …]; empty for the whole file.
ALTER TABLE announcement ADD COLUMN ranges TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(ranges));
-- Files that have changed on the base branch since a head has left it.
CREATE TABLE drift (
    head TEXT NOT NULL,
    base TEXT NOT NULL,
    paths TEXT NOT NULL CHECK (json_valid(paths)),
    at INTEGER NOT NULL,
    PRIMARY KEY (head, base)
) STRICT, WITHOUT ROWID;
