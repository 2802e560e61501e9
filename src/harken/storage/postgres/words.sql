-- Full text of Harken on PostgreSQL. Statements end with a line of two semicolons; {schema} is the schema's name.
--
-- An inverted index cannot lead with a column: the tenant is one of the words that it holds ('t:NAME'), and so is the
-- scope of each entry. The functions run as the owner of the tables: `@@` is not leakproof, so that under row-level
-- security no index would be used for it. Each of them sees the tenant of the transaction alone.
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
ALTER TABLE entry_words ALTER COLUMN words SET STATISTICS 300
;;
CREATE INDEX IF NOT EXISTS ix_entry_words ON entry_words USING gin (words) WITH (gin_pending_list_limit = 512)
;;
-- What an older Harken has indexed gets the word of entries that are not to be trusted ('u:1').
UPDATE entry_words w SET words = w.words || array_to_tsvector(ARRAY['u:1']) FROM entries e
WHERE e.tenant = w.tenant AND e.id = w.entry_id AND e.trust IN ('tool', 'untrusted')
    AND NOT w.words @@ $$'u:1'$$::tsquery
;;
CREATE OR REPLACE FUNCTION harken_words(own text, beside text, scope text) RETURNS tsvector
LANGUAGE sql STABLE SET search_path = {schema}, pg_temp AS $$
    SELECT setweight(to_tsvector('{schema}.harken', own), 'A') || setweight(to_tsvector('{schema}.harken', beside), 'B')
        || array_to_tsvector(string_to_array('t:' || current_setting('harken.tenant') || ' ' || scope, ' '))
$$
;;
CREATE OR REPLACE FUNCTION harken_index(ids bigint[], own text[], beside text[], scope text[], lengths integer[])
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
    INSERT INTO entry_words (tenant, entry_id, words, length)
    SELECT current_setting('harken.tenant'), u.id, harken_words(u.own, u.beside, u.scope), u.length
    FROM unnest(ids, own, beside, scope, lengths) AS u (id, own, beside, scope, length)
    ON CONFLICT (tenant, entry_id) DO UPDATE SET words = excluded.words, length = excluded.length;
    SELECT pg_notify('harken_work', current_setting('harken.tenant'));
$$
;;
CREATE OR REPLACE FUNCTION harken_unindex(ids bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
    DELETE FROM entry_words WHERE tenant = current_setting('harken.tenant') AND (ids IS NULL OR entry_id = ANY (ids))
$$
;;
CREATE OR REPLACE FUNCTION harken_differing(ids bigint[], own text[], beside text[], scope text[])
RETURNS SETOF bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
    SELECT u.id FROM unnest(ids, own, beside, scope) AS u (id, own, beside, scope)
    LEFT JOIN entry_words w ON w.tenant = current_setting('harken.tenant') AND w.entry_id = u.id
    WHERE w.words IS DISTINCT FROM harken_words(u.own, u.beside, u.scope)
$$
;;
CREATE OR REPLACE FUNCTION harken_indexed(OUT entries bigint, OUT average_length float8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
    SELECT count(*), coalesce(avg(length), 1) FROM entry_words WHERE tenant = current_setting('harken.tenant')
$$
;;
DROP FUNCTION IF EXISTS harken_search(
    text[], boolean, text, bigint, bigint, integer, bigint, float8, integer, integer
)
;;
-- The query in the entry's own words alone.
CREATE OR REPLACE FUNCTION harken_own(query tsquery) RETURNS tsquery
LANGUAGE sql IMMUTABLE SET search_path = {schema}, pg_temp AS $$
    SELECT regexp_replace(query::text, '''((?:[^'']|'''')+)''', '''\1'':A', 'g')::tsquery
$$
;;
-- Without a count of the tenant's entries it counts them itself, which is quick where they are few; and compares all of
-- them, which takes as long however many other tenants there are (IS TRUE hides the inverted index, whose lists grow
-- with them: p95 of 1,000 entries among a million 7.5 ms by it, 5.4 without).
-- Entries that quote `quoted` come last and without a score, unless they are among the best anyway.
CREATE OR REPLACE FUNCTION harken_find(
    terms text[], quoted text, own_only boolean, scope text, since bigint, until bigint, at_most integer,
    counted bigint, counted_length float8, all_ranked integer, most_matches integer
) RETURNS TABLE (entry_id bigint, score float8, quoting boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    name text := current_setting('harken.tenant');
    mine tsquery := ('''t:' || name || '''')::tsquery;
    inside tsquery := CASE WHEN scope = '' THEN mine ELSE scope::tsquery && mine END;
    everywhere boolean := scope = '' AND since IS NULL AND until IS NULL;
    -- bm25 of FTS5 counts own words twice, which gives 2.2 * 2 / (2 + 1.2) = 1.375 times what a neighbour's word gets.
    weights float4[] := CASE WHEN own_only THEN '{0, 0, 0, 1}' ELSE '{0, 0, 0.727273, 1}' END;
    term text; query tsquery; holders float8; left_over float8 := most_matches;
    queries tsquery[] := '{}'; lexemes text[] := '{}'; counts float8[];
    commonest text[]; shares float4[];
    place integer; other integer; choosing tsquery; pairs tsquery;
    ranks text := ''; held text := '0'; rarities text := '0'; sums text := '0';
    total bigint := counted; average_length float8 := counted_length;
    phrase tsquery := phraseto_tsquery('{schema}.harken', quoted); own_phrase tsquery := harken_own(phrase);
    at_once boolean := false; dated text := ''; any_of tsquery; among float8;
BEGIN
    IF total IS NULL THEN
        SELECT count(*), coalesce(avg(w.length), 1) INTO total, average_length FROM entry_words w WHERE w.tenant = name;
    END IF;
    FOREACH term IN ARRAY terms LOOP
        query := phraseto_tsquery('{schema}.harken', term);
        CONTINUE WHEN numnode(query) = 0;
        queries := queries || query;
        lexemes := lexemes || CASE WHEN numnode(query) = 1 THEN btrim(query::text, '''') END;
    END LOOP;
    IF cardinality(queries) = 0 THEN
        RETURN;
    END IF;
    -- Where all that hold a word are ranked, those that quote it are among them.
    at_once := total <= all_ranked AND EXISTS (SELECT 1 FROM unnest(queries) q WHERE phrase @> q);
    -- How many hold a common word is known from the table's statistics; the others are counted while they are read.
    IF total > all_ranked THEN
        SELECT s.most_common_elems::text::text[], s.most_common_elem_freqs INTO commonest, shares FROM pg_stats s
        WHERE s.schemaname = '{schema}' AND s.tablename = 'entry_words' AND s.attname = 'words';
        SELECT array_agg(shares[array_position(commonest, l.word)] * total ORDER BY l.place) INTO counts
        FROM unnest(lexemes) WITH ORDINALITY AS l (word, place);
    ELSE
        counts := array_fill(NULL::float8, ARRAY[cardinality(queries)]);
    END IF;
    FOR place IN 1 .. cardinality(queries) LOOP
        IF own_only THEN
            queries[place] := harken_own(queries[place]);
        END IF;
        any_of := CASE WHEN any_of IS NULL THEN queries[place] ELSE any_of || queries[place] END;
    END LOOP;
    -- Few entries and few words, as most questions of most tenants have: planned once for a connection, since planning
    -- and putting the statement together take a third of the time. It counts who holds a word among all that it ranks,
    -- so that a scope costs no counting; a word that is several lexemes has a rank in entries that do not hold it.
    IF counted IS NULL AND since IS NULL AND until IS NULL AND cardinality(queries) <= 8
        AND (everywhere OR cardinality(array_remove(lexemes, NULL)) = cardinality(queries)) THEN
        among := total;
        average_length := greatest(average_length, 1);
        RETURN QUERY WITH matching AS MATERIALIZED (
            SELECT w.entry_id AS id, 0.25 + 0.75 * w.length / average_length AS k,
                CASE WHEN everywhere THEN true ELSE w.words @@ inside END AS found,
                CASE WHEN at_once THEN w.words @@ own_phrase ELSE false END AS quotes,
                ts_rank(weights, w.words, queries[1]) * 2.261784 AS x1,
                ts_rank(weights, w.words, queries[2]) * 2.261784 AS x2,
                ts_rank(weights, w.words, queries[3]) * 2.261784 AS x3,
                ts_rank(weights, w.words, queries[4]) * 2.261784 AS x4,
                ts_rank(weights, w.words, queries[5]) * 2.261784 AS x5,
                ts_rank(weights, w.words, queries[6]) * 2.261784 AS x6,
                ts_rank(weights, w.words, queries[7]) * 2.261784 AS x7,
                ts_rank(weights, w.words, queries[8]) * 2.261784 AS x8
            FROM entry_words w WHERE w.tenant = name AND (w.words @@ any_of) IS TRUE
        ), held AS MATERIALIZED (
            SELECT
                (count(*) FILTER (WHERE m.x1 > 0))::float8 AS n1, (count(*) FILTER (WHERE m.x2 > 0))::float8 AS n2,
                (count(*) FILTER (WHERE m.x3 > 0))::float8 AS n3, (count(*) FILTER (WHERE m.x4 > 0))::float8 AS n4,
                (count(*) FILTER (WHERE m.x5 > 0))::float8 AS n5, (count(*) FILTER (WHERE m.x6 > 0))::float8 AS n6,
                (count(*) FILTER (WHERE m.x7 > 0))::float8 AS n7, (count(*) FILTER (WHERE m.x8 > 0))::float8 AS n8
            FROM matching m
        ), rarity AS MATERIALIZED (
            SELECT
                greatest(1e-6, ln((greatest(among, h.n1) - h.n1 + 0.5) / (h.n1 + 0.5))) * 2.2 AS r1,
                greatest(1e-6, ln((greatest(among, h.n2) - h.n2 + 0.5) / (h.n2 + 0.5))) * 2.2 AS r2,
                greatest(1e-6, ln((greatest(among, h.n3) - h.n3 + 0.5) / (h.n3 + 0.5))) * 2.2 AS r3,
                greatest(1e-6, ln((greatest(among, h.n4) - h.n4 + 0.5) / (h.n4 + 0.5))) * 2.2 AS r4,
                greatest(1e-6, ln((greatest(among, h.n5) - h.n5 + 0.5) / (h.n5 + 0.5))) * 2.2 AS r5,
                greatest(1e-6, ln((greatest(among, h.n6) - h.n6 + 0.5) / (h.n6 + 0.5))) * 2.2 AS r6,
                greatest(1e-6, ln((greatest(among, h.n7) - h.n7 + 0.5) / (h.n7 + 0.5))) * 2.2 AS r7,
                greatest(1e-6, ln((greatest(among, h.n8) - h.n8 + 0.5) / (h.n8 + 0.5))) * 2.2 AS r8
            FROM held h
        ), scored AS MATERIALIZED (
            SELECT m.id, m.quotes, (0 + r.r1 * m.x1 / (m.x1 + m.k * (2.2 - m.x1))
                + coalesce(r.r2 * m.x2 / (m.x2 + m.k * (2.2 - m.x2)), 0)
                + coalesce(r.r3 * m.x3 / (m.x3 + m.k * (2.2 - m.x3)), 0)
                + coalesce(r.r4 * m.x4 / (m.x4 + m.k * (2.2 - m.x4)), 0)
                + coalesce(r.r5 * m.x5 / (m.x5 + m.k * (2.2 - m.x5)), 0)
                + coalesce(r.r6 * m.x6 / (m.x6 + m.k * (2.2 - m.x6)), 0)
                + coalesce(r.r7 * m.x7 / (m.x7 + m.k * (2.2 - m.x7)), 0)
                + coalesce(r.r8 * m.x8 / (m.x8 + m.k * (2.2 - m.x8)), 0))::float8 AS points
            FROM matching m, rarity r WHERE m.found
        ), best AS MATERIALIZED (SELECT s.* FROM scored s ORDER BY s.points DESC, s.id DESC LIMIT at_most)
        (SELECT b.id, b.points, b.quotes FROM best b ORDER BY b.points DESC, b.id DESC)
        UNION ALL (SELECT s.id, NULL, true FROM scored s
            WHERE s.quotes AND s.id NOT IN (SELECT b.id FROM best b) LIMIT at_most);
        RETURN;
    END IF;
    FOR place IN 1 .. cardinality(queries) LOOP
        IF counts[place] IS NULL AND NOT everywhere THEN
            SELECT count(*) INTO holders FROM entry_words w WHERE w.tenant = name AND w.words @@ (queries[place] && mine);
            counts[place] := holders;
        END IF;
    END LOOP;
    -- In a large store the rarest words choose who is ranked, as many as up to so many entries hold; all words rank.
    FOR place IN SELECT i FROM generate_subscripts(counts, 1) AS i ORDER BY counts[i] NULLS FIRST, i LOOP
        left_over := left_over - coalesce(counts[place], 0);
        EXIT WHEN choosing IS NOT NULL AND total > all_ranked AND left_over < 0;
        choosing := CASE WHEN choosing IS NULL THEN queries[place] ELSE choosing || queries[place] END;
    END LOOP;
    -- Where even the rarest is common, those that hold two of the words are few, and the better ones.
    IF total > all_ranked AND left_over < 0 AND cardinality(queries) > 1
        AND (SELECT min(coalesce(c, 0)) FROM unnest(counts) AS c) > most_matches THEN
        FOR place IN 1 .. cardinality(queries) - 1 LOOP
            FOR other IN place + 1 .. cardinality(queries) LOOP
                pairs := CASE WHEN pairs IS NULL THEN queries[place] && queries[other]
                    ELSE pairs || (queries[place] && queries[other]) END;
            END LOOP;
        END LOOP;
        PERFORM 1 FROM entry_words w WHERE w.tenant = name AND w.words @@ (pairs && inside) OFFSET at_most / 4 LIMIT 1;
        IF FOUND THEN
            choosing := pairs;
        END IF;
    END IF;
    -- A single word's ts_rank is its weights summed with falling shares, divided by pi^2 / 6: near, times 1.375, to what
    -- bm25's saturation (k1 = 1.2) makes of its count in an entry of average length. The length then counts as in bm25
    -- (b = 0.75), and the word's rarity. Who holds a word is counted once: inlined, it would be for each match.
    FOR place IN 1 .. cardinality(queries) LOOP
        ranks := ranks || format(', ts_rank($1, w.words, $2[%1$s]) * 2.261784 AS x%1$s', place);
        rarities := rarities || format(
            ', greatest(1e-6, ln((greatest($10, n%1$s) - n%1$s + 0.5) / (n%1$s + 0.5))) * 2.2 AS r%1$s', place);
        held := held || format(', coalesce($3[%1$s], count(*) FILTER (WHERE x%1$s > 0)) AS n%1$s', place);
        sums := sums || format(' + r%1$s * x%1$s / (x%1$s + k * (2.2 - x%1$s))', place);
    END LOOP;
    IF since IS NOT NULL OR until IS NOT NULL THEN
        dated := 'JOIN entries e ON e.tenant = w.tenant AND e.id = w.entry_id
            AND e.created_at >= coalesce($6, e.created_at) AND e.created_at < coalesce($7, e.created_at + 1) ';
    END IF;
    RETURN QUERY EXECUTE
        'WITH matching AS MATERIALIZED (
            SELECT w.entry_id, 0.25 + 0.75 * w.length / $4 AS k, '
        || CASE WHEN at_once THEN 'w.words @@ $11' ELSE 'false' END || ' AS quoting' || ranks || ' FROM entry_words w '
        || dated
        || 'WHERE w.tenant = $5 AND ' || CASE WHEN counted IS NULL THEN '(w.words @@ $8) IS TRUE' ELSE 'w.words @@ $8' END || '
        ), held AS MATERIALIZED (SELECT ' || held || ' FROM matching
        ), rarity AS MATERIALIZED (SELECT ' || rarities || ' FROM held
        ), scored AS MATERIALIZED (
            SELECT m.entry_id, (' || sums || ')::float8 AS score, m.quoting FROM matching m, rarity
        ), best AS MATERIALIZED (SELECT * FROM scored ORDER BY score DESC, entry_id DESC LIMIT $9)
        (SELECT * FROM best ORDER BY score DESC, entry_id DESC)'
        || CASE WHEN at_once THEN ' UNION ALL (SELECT s.entry_id, NULL, true FROM scored s
            WHERE s.quoting AND s.entry_id NOT IN (SELECT b.entry_id FROM best b) LIMIT $9)' ELSE '' END
        USING weights, queries, counts, greatest(average_length, 1), name, since, until, choosing && inside, at_most,
            total::float8, own_phrase;
    IF numnode(phrase) > 0 AND NOT at_once THEN
        RETURN QUERY EXECUTE
            'SELECT q.entry_id, NULL::float8, true FROM (
                SELECT w.entry_id, ts_rank($1, w.words, $2) * 2.261784 AS x, 0.25 + 0.75 * w.length / $4 AS k
                FROM entry_words w ' || dated || 'WHERE w.tenant = $5 AND w.words @@ $3 OFFSET 0
            ) q ORDER BY x / (x + k * (2.2 - x)) DESC, entry_id DESC LIMIT $8'
            USING '{0, 0, 0, 1}'::float4[], own_phrase, own_phrase && inside, greatest(average_length, 1), name,
                since, until, at_most;
    END IF;
END
$$
