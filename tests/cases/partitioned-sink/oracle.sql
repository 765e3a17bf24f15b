-- sink: results
-- Partition values are names of directories, hence strings.
SELECT id, price, region, COALESCE(CASE WHEN qty < 6 THEN '1' WHEN qty >= 6 THEN '2' END, '__DEFAULT_PARTITION__') AS bucket
FROM read_json('${in}/orders.ndjson', columns = {id: 'INT', region: 'VARCHAR', price: 'DOUBLE', qty: 'INT'})
