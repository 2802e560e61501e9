-- The table of full text on PostgreSQL. Statements end with a line of two semicolons.
--
-- An inverted index cannot lead with a column: the tenant is one of the words that it holds ('t:NAME'), and so is the
-- scope of each entry.
CREATE TABLE IF NOT EXISTS entry_words (
    tenant text NOT NULL,
    entry_id bigint NOT NULL,
    words tsvector NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (tenant, entry_id) INCLUDE (length)
)
;;
-- Whole in their rows while they fit a page: each word's rank would fetch one that lies apart again, for 3 µs.
ALTER TABLE entry_words SET (toast_tuple_target = 8160)
;;
-- The three thousand commonest words are known by their share, so that nobody has to count who holds them.
-- Said once: a cluster refuses to say it of a table that it has spread.
DO $$ BEGIN
    IF (SELECT attstattarget FROM pg_attribute WHERE attrelid = 'entry_words'::regclass AND attname = 'words')
        IS DISTINCT FROM 300 THEN
        ALTER TABLE entry_words ALTER COLUMN words SET STATISTICS 300;
    END IF;
END $$
;;
CREATE INDEX IF NOT EXISTS ix_entry_words ON entry_words USING gin (words) WITH (gin_pending_list_limit = 512)
;;
-- What an older Harken has indexed gets the word of entries that are not to be trusted ('u:1').
UPDATE entry_words w SET words = w.words || array_to_tsvector(ARRAY['u:1']) FROM entries e
WHERE e.tenant = w.tenant AND e.id = w.entry_id AND e.trust IN ('tool', 'untrusted')
    AND NOT w.words @@ $$'u:1'$$::tsquery
