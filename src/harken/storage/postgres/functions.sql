-- Full text of Harken on PostgreSQL. Statements end with a line of two semicolons; {schema} is the schema's name.
--
-- The functions run as the owner of the tables: `@@` is not leakproof, so that under row-level security no index would be
-- used for it. Each of them sees the tenant of the transaction alone, which it is told as well: by that a cluster knows
-- on which of its machines to run it, whole. There each statement must be one of a single shard; what SQL functions with
-- parameters say is none. What reads much reads the tenant's shard itself, named by {entry_words} and {entries}: the
-- cluster would plan each statement of the whole table once more.
CREATE OR REPLACE FUNCTION harken_bound(of_tenant text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF of_tenant IS DISTINCT FROM current_setting('harken.tenant', true) THEN
        RAISE EXCEPTION 'this transaction is not of that tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN of_tenant;
END
$$
;;
CREATE OR REPLACE FUNCTION harken_words(of_tenant text, own text, beside text, scope text) RETURNS tsvector
LANGUAGE sql STABLE SET search_path = {schema}, pg_temp AS $$
    SELECT setweight(to_tsvector('{schema}.harken', own), 'A') || setweight(to_tsvector('{schema}.harken', beside), 'B')
        || array_to_tsvector(string_to_array('t:' || of_tenant || ' ' || scope, ' '))
$$
;;
CREATE OR REPLACE FUNCTION harken_index(
    of_tenant text, ids bigint[], own text[], beside text[], scope text[], lengths integer[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    name text := harken_bound(of_tenant);
BEGIN
    FOR place IN 1 .. cardinality(ids) LOOP
        INSERT INTO entry_words (tenant, entry_id, words, length)
        VALUES (name, ids[place], harken_words(name, own[place], beside[place], scope[place]), lengths[place])
        ON CONFLICT (tenant, entry_id) DO UPDATE SET words = excluded.words, length = excluded.length;
    END LOOP;
END
$$
;;
CREATE OR REPLACE FUNCTION harken_unindex(of_tenant text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    name text := harken_bound(of_tenant);
BEGIN
    DELETE FROM entry_words w WHERE w.tenant = name AND (ids IS NULL OR w.entry_id = ANY (ids));
END
$$
;;
CREATE OR REPLACE FUNCTION harken_differing(of_tenant text, ids bigint[], own text[], beside text[], scope text[])
RETURNS SETOF bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    name text := harken_bound(of_tenant);
    held tsvector;
BEGIN
    FOR place IN 1 .. cardinality(ids) LOOP
        held := (SELECT w.words FROM entry_words w WHERE w.tenant = name AND w.entry_id = ids[place]);
        IF held IS DISTINCT FROM harken_words(name, own[place], beside[place], scope[place]) THEN
            RETURN NEXT ids[place];
        END IF;
    END LOOP;
END
$$
;;
CREATE OR REPLACE FUNCTION harken_indexed(of_tenant text, OUT entries bigint, OUT average_length float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    name text := harken_bound(of_tenant);
BEGIN
    SELECT count(*), coalesce(avg(w.length), 1) INTO entries, average_length FROM entry_words w WHERE w.tenant = name;
END
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
-- The table is never read whole: a tenant of a large share of it would have the words of all the others compared, for the
-- server asks of each row whether it has the words before it asks whose it is.
-- Entries that quote `quoted` come last and without a score, unless they are among the best anyway.
CREATE OR REPLACE FUNCTION harken_find(
    of_tenant text, terms text[], quoted text, own_only boolean, scope text, since bigint, until bigint, at_most integer,
    counted bigint, counted_length float8, all_ranked integer, most_matches integer
) RETURNS TABLE (entry_id bigint, score float8, quoting boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    name text := harken_bound(of_tenant);
    said text := {entry_words}; kept text := {entries};
    mine tsquery := ('''t:' || name || '''')::tsquery;
    inside tsquery := CASE WHEN scope = '' THEN mine ELSE scope::tsquery && mine END;
    dated text := CASE WHEN since IS NULL AND until IS NULL THEN '' ELSE
        'JOIN ' || kept || ' e ON e.tenant = w.tenant AND e.id = w.entry_id
            AND e.created_at >= coalesce($6, e.created_at) AND e.created_at < coalesce($7, e.created_at + 1)' END;
    -- bm25 of FTS5 counts own words twice, which gives 2.2 * 2 / (2 + 1.2) = 1.375 times what a neighbour's word gets.
    weights float4[] := CASE WHEN own_only THEN '{0, 0, 0, 1}' ELSE '{0, 0, 0.727273, 1}' END;
    total float8 := counted; average_length float8 := counted_length;
    phrase tsquery := phraseto_tsquery('{schema}.harken', quoted); own_phrase tsquery := harken_own(phrase);
    queries tsquery[]; lexemes text[]; counts float8[]; commonest text[]; shares float4[];
    at_once boolean; choosing tsquery; pairs tsquery; least float8; of_all float8;
    ranks text; held text; rarities text; sums text;
BEGIN
    IF counted IS NULL THEN
        SELECT count(*), coalesce(avg(w.length), 1) INTO total, average_length FROM entry_words w WHERE w.tenant = name;
    END IF;
    average_length := greatest(average_length, 1);
    SELECT array_agg(CASE WHEN own_only THEN harken_own(q) ELSE q END ORDER BY t.place),
        array_agg(CASE WHEN numnode(q) = 1 THEN btrim(q::text, '''') END ORDER BY t.place),
        -- Where all that hold a word are ranked, those that quote it are among them.
        total <= all_ranked AND coalesce(bool_or(phrase @> q), false) INTO queries, lexemes, at_once
    FROM unnest(terms) WITH ORDINALITY AS t (term, place), phraseto_tsquery('{schema}.harken', t.term) AS q
    WHERE numnode(q) > 0;
    IF queries IS NULL THEN
        RETURN;
    END IF;
    -- How many hold a common word is known from the table's statistics; the others are counted while they are read,
    -- unless dates or a scope leave some unread; a word of several lexemes has a rank where it is not held.
    IF total > all_ranked THEN
        SELECT s.most_common_elems::text::text[], s.most_common_elem_freqs INTO commonest, shares FROM pg_stats s
        WHERE quote_ident(s.schemaname) = '{schema}' AND s.tablename = said AND s.attname = 'words';
    END IF;
    FOR place IN 1 .. cardinality(queries) LOOP
        counts[place] := shares[array_position(commonest, lexemes[place])] * total;
        IF counts[place] IS NULL AND (
            dated <> '' OR scope <> '' AND (counted IS NOT NULL OR lexemes[place] IS NULL)) THEN
            EXECUTE 'SELECT count(*) FROM ' || said || ' w WHERE w.tenant = $1 AND w.words @@ $2'
                INTO of_all USING name, queries[place] && mine;
            counts[place] := of_all;
        END IF;
    END LOOP;
    -- In a large store the rarest words choose who is ranked, as many as up to so many entries hold; all words rank.
    SELECT string_agg(w.q::text, ' | ') FILTER (WHERE total <= all_ranked OR w.held <= most_matches OR w.nth = 1),
        max(w.held), min(w.n) INTO choosing, of_all, least
    FROM (
        SELECT c.q, c.n, row_number() OVER rarest AS nth, sum(c.n) OVER rarest AS held
        FROM (
            SELECT u.q, coalesce(u.n, 0) AS n, u.place
            FROM unnest(queries, counts) WITH ORDINALITY AS u (q, n, place)) c
        WINDOW rarest AS (ORDER BY c.n, c.place ROWS UNBOUNDED PRECEDING)) w;
    -- Where even the rarest is common, those that hold two of the words are few, and the better ones.
    IF total > all_ranked AND of_all > most_matches AND least > most_matches AND cardinality(queries) > 1 THEN
        SELECT string_agg((a.q && b.q)::text, ' | ') INTO pairs FROM unnest(queries) WITH ORDINALITY AS a (q, place),
            unnest(queries) WITH ORDINALITY AS b (q, place) WHERE a.place < b.place;
        EXECUTE 'SELECT $2 FROM ' || said || ' w WHERE w.tenant = $1 AND w.words @@ $3 OFFSET $4 LIMIT 1'
            INTO pairs USING name, pairs, pairs && inside, at_most / 4;
        choosing := coalesce(pairs, choosing);
    END IF;
    -- A single word's ts_rank is its weights summed with falling shares, divided by pi^2 / 6: near, times 1.375, to what
    -- bm25's saturation (k1 = 1.2) makes of its count in an entry of average length. The length then counts as in bm25
    -- (b = 0.75), and the word's rarity. Who holds a word is counted once: inlined, it would be for each match.
    SELECT string_agg(format(', ts_rank($1, w.words, $2[%1$s]) * 2.261784 AS x%1$s', n), '' ORDER BY n),
        string_agg(format(', coalesce($3[%1$s], count(*) FILTER (WHERE x%1$s > 0)) AS n%1$s', n), '' ORDER BY n),
        string_agg(format(', greatest(1e-6, ln((greatest($10, n%1$s) - n%1$s + 0.5) / (n%1$s + 0.5))) * 2.2 AS r%1$s', n),
            '' ORDER BY n),
        string_agg(format(' + r%1$s * x%1$s / (x%1$s + k * (2.2 - x%1$s))', n), '' ORDER BY n)
        INTO ranks, held, rarities, sums FROM generate_subscripts(queries, 1) AS n;
    RETURN QUERY EXECUTE 'WITH matching AS MATERIALIZED (
            SELECT w.entry_id AS id, 0.25 + 0.75 * w.length / $4 AS k, '
        || CASE WHEN at_once THEN 'w.words @@ $11' ELSE 'false' END || ' AS quotes, '
        || CASE WHEN counted IS NULL AND scope <> '' THEN 'w.words @@ $12' ELSE 'true' END || ' AS found' || ranks
        || ' FROM ' || said || ' w ' || dated || ' WHERE w.tenant = $5 AND '
        || CASE WHEN counted IS NULL THEN '(w.words @@ $8) IS TRUE' ELSE 'w.words @@ ($8 && $12)' END || '
        ), held AS MATERIALIZED (SELECT 0' || held || ' FROM matching
        ), rarity AS MATERIALIZED (SELECT 0' || rarities || ' FROM held
        ), scored AS MATERIALIZED (
            SELECT m.id, (0' || sums || ')::float8 AS score, m.quotes FROM matching m, rarity WHERE m.found
        ), best AS MATERIALIZED (SELECT * FROM scored ORDER BY score DESC, id DESC LIMIT $9)
        (SELECT * FROM best ORDER BY score DESC, id DESC) UNION ALL
        (SELECT id, NULL, true FROM scored WHERE quotes AND id NOT IN (SELECT id FROM best) LIMIT $9)'
        USING weights, queries, counts, average_length, name, since, until, choosing, at_most, total, own_phrase, inside;
    IF numnode(phrase) > 0 AND NOT at_once THEN
        RETURN QUERY EXECUTE 'SELECT q.entry_id, NULL::float8, true FROM (
                SELECT w.entry_id, ts_rank($1, w.words, $2) * 2.261784 AS x, 0.25 + 0.75 * w.length / $4 AS k
                FROM ' || said || ' w ' || dated || ' WHERE w.tenant = $5 AND w.words @@ $3 OFFSET 0
            ) q ORDER BY x / (x + k * (2.2 - x)) DESC, entry_id DESC LIMIT $8'
            USING '{0, 0, 0, 1}'::float4[], own_phrase, own_phrase && inside, average_length, name, since, until,
                at_most;
    END IF;
END
$$
;;
-- The entries that hold each of some words in their own text, as one list for each word.
CREATE OR REPLACE FUNCTION harken_holders(
    of_tenant text, held_words text[], scope text, since bigint, until bigint, at_most integer
) RETURNS TABLE (place integer, holders text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = {schema}, pg_temp SET enable_seqscan = off AS $$
DECLARE
    name text := harken_bound(of_tenant); said text := {entry_words}; few integer;
BEGIN
    EXECUTE 'SELECT count(*) FROM (SELECT FROM ' || said || ' w WHERE w.tenant = $1 LIMIT 2000) few'
        INTO few USING name;
    -- All words of a small tenant by one reading of its entries, which takes a sixth of a search for each word.
    IF few < 2000 AND since IS NULL AND until IS NULL THEN
        -- How many there are comes along, where nothing is left out.
        IF scope = '' THEN
            place := 0;
            holders := few::text;
            RETURN NEXT;
        END IF;
        -- Queries are made of the words before: of a scope a single entry is expected, and they would be for each.
        RETURN QUERY EXECUTE 'SELECT q.place::integer, string_agg(w.entry_id::text, '','') FROM ' || said || ' w,
                unnest($3) WITH ORDINALITY AS q (own, place)
            WHERE w.tenant = $1 AND (w.words @@ q.own) IS TRUE'
            || CASE WHEN scope = '' THEN '' ELSE ' AND (w.words @@ $2) IS TRUE' END || ' GROUP BY q.place'
            USING name, nullif(scope, '')::tsquery, ARRAY(
                SELECT harken_own(phraseto_tsquery('{schema}.harken', t.word))
                FROM unnest(held_words) WITH ORDINALITY AS t (word, nth) ORDER BY t.nth);
        RETURN;
    END IF;
    FOR nth IN 1 .. cardinality(held_words) LOOP
        place := nth;
        holders := (
            -- As a text, which takes a fifth of the time that the driver takes for each number.
            SELECT string_agg(f.entry_id::text, ',') FROM harken_find(
                of_tenant, ARRAY[held_words[nth]], NULL, true, scope, since, until, at_most, 1, 1, 1, 2147483647) f);
        IF holders IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$
;;
-- None but a table's owner may have it counted. One is passed over while an index of it is made beside running writers,
-- which takes minutes.
CREATE OR REPLACE FUNCTION harken_count_again(of_tenant text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    name text := harken_bound(of_tenant);
BEGIN
    EXECUTE 'ANALYZE (SKIP_LOCKED) ' || {entries} || ', ' || {entry_words} || ', ' || {entry_facets} || ', ' || {messages}
        || ', ' || {exchanges} || ', ' || {conversations} || ', ' || {vectors};
END
$$
;;
-- Answers a question that a client has put together of several, with its rights and before its wall. Of the named tables
-- it reads the tenant's shards themselves, by a plan that is made once in a session, which keeps a hundred: making it takes
-- longer than the answer, and the cluster would make one on two machines for each question of its own.
CREATE OR REPLACE FUNCTION harken_asked(of_tenant text, tables text[], question text, given text[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = {schema}, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    name text := harken_bound(of_tenant); shards text; answering text; oldest text; answers text[];
BEGIN
    SELECT string_agg(format('%1$I AS NOT MATERIALIZED (SELECT * FROM %2$I)', t.named, {named}), ', ') INTO shards
        FROM unnest(tables) AS t (named);
    question := 'WITH ' || shards || ' ' || question;
    answering := format('EXECUTE %I (%L, %L)', 'harken_' || md5(question), name, given);
    BEGIN
        EXECUTE answering INTO answers;
    EXCEPTION WHEN invalid_sql_statement_name THEN
        FOR oldest IN SELECT p.name FROM pg_prepared_statements p WHERE p.name LIKE 'harken\_%'
            ORDER BY p.prepare_time DESC OFFSET 99
        LOOP
            EXECUTE format('DEALLOCATE %I', oldest);
        END LOOP;
        EXECUTE format('PREPARE %I (text, text[]) AS %s', 'harken_' || md5(question), question);
        EXECUTE answering INTO answers;
    END;
    RETURN answers;
END
$$
