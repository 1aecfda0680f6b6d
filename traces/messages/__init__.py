"""Logged messages compared with the model: request logs of brokers and controllers.

In: lines of request logs. Out: findings. It may ask the model's handlers through ``traces/rules``.
"""
