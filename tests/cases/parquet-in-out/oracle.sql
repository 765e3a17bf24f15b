-- sink: results
SELECT id, customer, amount, price, strftime(ts, '%Y-%m-%dT%H:%M:%S.') || lpad(CAST(date_part('ms', ts) % 1000 AS INT)::VARCHAR, 3, '0') AS ts, third, day FROM '${in}/orders.parquet' WHERE price > 10
-- sink: nested
SELECT id, pair[1] AS second, rec.b AS b FROM '${in}/orders.parquet' WHERE id <= 20
