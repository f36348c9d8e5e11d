"""The query services of a gateway: their announcements, the routes of requests, and connections to them."""
