-- sink: results
SELECT customer, region, COUNT(*) AS n, SUM(amount) AS amount, SUM(price) AS total, COUNT(*) FILTER (WHERE price >= 50) AS dear
FROM read_json('${in}/orders.ndjson', columns = {id: 'INT', customer: 'VARCHAR', region: 'VARCHAR', amount: 'DECIMAL(10, 2)', price: 'DOUBLE'})
GROUP BY ALL
