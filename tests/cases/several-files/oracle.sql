-- sink: results
SELECT time_bucket(INTERVAL 30 SECOND, ts) AS w_start, region, COUNT(*) AS n, SUM(price) AS total, MIN(id) AS lowest
FROM read_json('${in}/[abc].ndjson', columns = {id: 'INT', region: 'VARCHAR', price: 'DOUBLE', ts: 'TIMESTAMP'}) GROUP BY ALL
