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
  first_letter STRING,
  bucket INT,
  n BIGINT,
  ratio DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT UPPER(SUBSTRING(customer, 1, 1)), qty / 4, COUNT(*), SUM(price) / COUNT(*)
FROM orders
WHERE region <> 'west'
GROUP BY UPPER(SUBSTRING(customer, 1, 1)), qty / 4;
