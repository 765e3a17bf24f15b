CREATE TABLE orders (
  id INT,
  customer STRING,
  region STRING,
  amount DECIMAL(10, 2),
  qty INT,
  price DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/orders.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  customer STRING,
  net DECIMAL(12, 2),
  total DOUBLE,
  half INT,
  rest INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, customer, amount - 1.25, price * qty, qty / 2, MOD(qty, 3)
FROM orders
WHERE (region = 'north' OR price > 60) AND NOT (qty < 3) AND amount BETWEEN 10 AND 700;
