-- sink: results
SELECT region, COUNT(*) AS n, SUM(price) AS total
FROM read_json('${in}/orders.ndjson.gz', columns = {region: 'VARCHAR', price: 'DOUBLE'}) GROUP BY region
