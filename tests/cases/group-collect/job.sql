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
  ids ARRAY<INT>,
  customers STRING,
  dashed STRING,
  qtys ARRAY<INT>
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT region, ARRAY_AGG(id), LISTAGG(customer), LISTAGG(CAST(id AS STRING), '-'), ARRAY_AGG(qty)
FROM orders GROUP BY region;
