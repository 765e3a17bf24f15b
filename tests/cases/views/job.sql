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
  customer STRING,
  spent DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

CREATE VIEW northern AS SELECT id, customer, price * qty AS spent FROM orders WHERE region = 'north';
CREATE TEMPORARY VIEW northern_known (buyer, spent) AS SELECT customer, spent FROM northern WHERE customer IS NOT NULL;
INSERT INTO results SELECT buyer, spent FROM northern_known WHERE spent IS NOT NULL;
