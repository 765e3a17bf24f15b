CREATE TABLE numbers (
  id INT,
  b BIGINT,
  i INT,
  d DOUBLE,
  m DECIMAL(38, 3),
  s SMALLINT,
  t TINYINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE copied (
  id INT,
  b BIGINT,
  i INT,
  d DOUBLE,
  m DECIMAL(38, 3),
  s SMALLINT,
  t TINYINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/copied',
  'format' = 'json'
);

CREATE TABLE results (
  lowest BIGINT,
  highest BIGINT,
  i_min INT,
  i_max INT,
  d_min DOUBLE,
  d_max DOUBLE,
  m_min DECIMAL(38, 3),
  m_max DECIMAL(38, 3),
  m_sum DECIMAL(38, 3),
  b_sum BIGINT,
  t_sum TINYINT,
  s_min SMALLINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO copied SELECT * FROM numbers;
INSERT INTO results SELECT MIN(b), MAX(b), MIN(i), MAX(i), MIN(d), MAX(d), MIN(m), MAX(m), SUM(m), SUM(b), SUM(t), MIN(s) FROM numbers;
END;
