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
CREATE TABLE people (
  id INT,
  who STRING,
  value_text STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/people.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  label STRING,
  x DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, customer, price FROM orders WHERE region = 'north'
UNION ALL
SELECT id, who, TRY_CAST(value_text AS DOUBLE) FROM people
UNION ALL
SELECT id * 1000, 'dup', price FROM orders WHERE region = 'north' AND price > 50;
