-- Bids per auction over the last 10 seconds, every 2 seconds, from the built-in generator of
-- auction events: 100,000 events per second of event time, as fast as the machine takes them.

CREATE TABLE datagen (
  event_type INT,
  person ROW<
    id BIGINT,
    name VARCHAR,
    emailAddress VARCHAR,
    creditCard VARCHAR,
    city VARCHAR,
    state VARCHAR,
    dateTime TIMESTAMP(3),
    extra VARCHAR>,
  auction ROW<
    id BIGINT,
    itemName VARCHAR,
    description VARCHAR,
    initialBid BIGINT,
    reserve BIGINT,
    dateTime TIMESTAMP(3),
    expires TIMESTAMP(3),
    seller BIGINT,
    category BIGINT,
    extra VARCHAR>,
  bid ROW<
    auction BIGINT,
    bidder BIGINT,
    price BIGINT,
    channel VARCHAR,
    url VARCHAR,
    dateTime TIMESTAMP(3),
    extra VARCHAR>,
  dateTime AS
    CASE event_type
      WHEN 0 THEN person.dateTime
      WHEN 1 THEN auction.dateTime
      ELSE bid.dateTime
    END,
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
  'connector' = 'nexmark',
  'first-event.rate' = '100000',
  'events.num' = '10000000'
);

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime, bid.extra
FROM datagen WHERE event_type = 2;

CREATE TABLE bids_per_auction (
  auction BIGINT,
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  bids BIGINT
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO bids_per_auction
SELECT auction, window_start, window_end, COUNT(*) AS bids
FROM TABLE(
  HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;
