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
  region STRING,
  id INT,
  doubled DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
WITH priced AS (
  SELECT id, region, price * 2 AS doubled FROM orders WHERE price IS NOT NULL
), dear AS (
  SELECT * FROM priced WHERE doubled > 100
)
SELECT region, id, doubled
FROM (
  SELECT d.region, d.id, d.doubled, MOD(d.id, 2) AS parity
  FROM (SELECT * FROM dear WHERE region <> 'west') AS d
) AS q
WHERE parity = 0;
