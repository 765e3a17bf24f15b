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
  size_word STRING,
  region_code INT,
  nullif_region STRING,
  coalesced STRING,
  iffed STRING,
  ifnulled INT,
  greatest_value DOUBLE,
  least_value INT,
  nested STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id,
  CASE WHEN qty IS NULL THEN 'unknown' WHEN qty < 4 THEN 'small' WHEN qty < 8 THEN 'medium' ELSE 'large' END,
  CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 END,
  NULLIF(region, 'west'),
  COALESCE(customer, NULLIF(region, 'west'), 'nobody'),
  IF(price > 50, 'dear', 'cheap'),
  IFNULL(qty, -1),
  GREATEST(price, CAST(id AS DOUBLE), 7.5E0),
  LEAST(qty, id, 5),
  CASE WHEN customer IS NULL THEN CASE WHEN amount > 100 THEN 'anon-big' ELSE 'anon' END ELSE customer END
FROM orders;
